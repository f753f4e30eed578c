//! What is learnt of models, and the bodies that are held.

use super::Families;
use crate::prompt::Prompts;
use prometheus_client::encoding::EncodeMetric as _;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;

pub(super) fn prompts(prompts: &Prompts, families: &mut Families<'_>) -> fmt::Result {
    let room = prompts.room();
    families.gauge(
        "held_body_bytes",
        "Bytes of request bodies that are held until they have been sent on.",
        room.bytes(),
    )?;
    families.gauge(
        "held_body_bytes_capacity",
        "Most of them.",
        room.most_bytes(),
    )?;
    families.gauge(
        "decoding_bytes",
        "Bytes of memory that decoding request bodies takes; they are held bytes too.",
        prompts.decoding().bytes(),
    )?;
    families.gauge(
        "decoding_bytes_capacity",
        "Most of them.",
        prompts.decoding().most_bytes(),
    )?;
    let calibration = prompts.calibration();
    let learnt = calibration.learnt();
    {
        let (name, help) = (
            "calibration_factor",
            "What estimates of a model are multiplied with.",
        );
        let mut family = (families.0).encode_descriptor(name, help, None, MetricType::Gauge)?;
        for of in &learnt {
            let labels = [("model", &*of.model)];
            ConstGauge::new(of.factor).encode(family.encode_family(&labels)?)?;
        }
    }
    let answers = learnt
        .iter()
        .map(|of| ([("model", &*of.model)], of.observations));
    families.counters(
        "calibration_answers",
        "Answers that a model's factor was learnt from.",
        answers,
    )?;
    families.gauge(
        "calibration_models_capacity",
        "Models that are learnt apart at most.",
        calibration.most_models() as u64,
    )?;
    families.counter(
        "calibration_evicted",
        "Models that were forgotten for others that came.",
        calibration.evicted(),
    )?;
    families.counter(
        "calibration_left_out",
        "Answers of models whose name is none that is learnt.",
        calibration.left_out(),
    )?;
    families.gauge(
        "limit_prompt_tokens",
        "Most tokens of a prompt in effect; 0: no limit.",
        prompts.limits(None).node.unwrap_or(0),
    )
}
