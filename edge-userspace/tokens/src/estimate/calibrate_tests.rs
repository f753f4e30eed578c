//! Simulations, the same each time: mixes of texts whose true ratios differ, upstreams that
//! lie.

use super::*;

/// Numbers that are the same in every run (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// About normal: twelve of them.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// A kind of text: its part of the requests, its true ratio, and how far single requests are
/// from that.
type Kind = (f64, f64, f64);

const PROSE: Kind = (0.5, 1.25, 0.06);
const CODE: Kind = (0.3, 1.6, 0.12);
const CHINESE: Kind = (0.15, 0.8, 0.1);
const ODD: Kind = (0.05, 2.4, 0.3);

/// A request's estimated and actual tokens: sizes from 30 to 60,000, evenly by logarithm.
fn request(random: &mut Random, mix: &[Kind]) -> (u64, u64) {
    let mut at = random.unit() * mix.iter().map(|kind| kind.0).sum::<f64>();
    let mut kind = mix[0];
    for next in mix {
        kind = *next;
        if at < next.0 {
            break;
        }
        at -= next.0;
    }
    let estimated = 30.0 * 2000_f64.powf(random.unit());
    let actual = estimated * kind.1 * (kind.2 * random.normal()).exp();
    (estimated as u64, actual.round().max(1.0) as u64)
}

/// The relative error of the sum over so many requests, each estimated before it is learnt
/// from.
fn error_of(ratio: &mut Ratio, random: &mut Random, mix: &[Kind], requests: usize) -> f64 {
    let (mut estimated_sum, mut actual_sum) = (0.0, 0.0);
    for _ in 0..requests {
        let (estimated, actual) = request(random, mix);
        estimated_sum += ratio.ratio() * estimated as f64;
        actual_sum += actual as f64;
        ratio.observe(estimated, actual);
    }
    estimated_sum / actual_sum - 1.0
}

#[test]
fn on_a_stationary_mix_the_sum_is_right_to_one_per_cent() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let mut ratio = Ratio::new(1.0);
        let mix = [PROSE, CODE, CHINESE, ODD];
        let error = error_of(&mut ratio, &mut random, &mix, 20_000);
        assert!(error.abs() <= 0.01, "seed {seed}: {error}");
        let spread = ratio.spread().unwrap();
        assert!((0.1..0.6).contains(&spread), "seed {seed}: {spread}");
    }
}

#[test]
fn within_200_requests_of_a_shift_the_sum_is_right_to_five_per_cent() {
    let shifts: [(&[Kind], &[Kind]); 5] = [
        (&[PROSE], &[CODE]),
        (&[CODE], &[PROSE]),
        (&[PROSE, CODE], &[CHINESE]),
        (&[CHINESE], &[PROSE, CODE]),
        (&[PROSE, CODE], &[PROSE, CHINESE]),
    ];
    for (number, (before, after)) in shifts.into_iter().enumerate() {
        let mut off = Vec::new();
        for seed in 0..40 {
            let mut random = Random(1000 + seed);
            let mut ratio = Ratio::new(1.0);
            error_of(&mut ratio, &mut random, before, 3000);
            error_of(&mut ratio, &mut random, after, 200);
            // What it would be off by from here on, on average, were it to learn no more.
            let kept = ratio;
            let mut truth = (0.0, 0.0);
            for _ in 0..20_000 {
                let (estimated, actual) = request(&mut random, after);
                truth.0 += estimated as f64;
                truth.1 += actual as f64;
            }
            off.push(kept.ratio() * truth.0 / truth.1 - 1.0);
        }
        // Requests are of very different sizes, so 200 of them tell as much as 70 of one size:
        // chance alone is off by two per cent.
        let within = off.iter().filter(|off| off.abs() <= 0.05).count();
        let mean = off.iter().map(|off| off.abs()).sum::<f64>() / off.len() as f64;
        assert!(
            within == off.len() && mean <= 0.025,
            "shift {number}: {within} of 40, mean {mean}"
        );
    }
}

#[test]
fn a_lying_upstream_does_not_push_it_past_its_bounds() {
    for (lie, bound) in [(u64::MAX, MOST), (1, LEAST)] {
        let mut ratio = Ratio::new(1.0);
        for _ in 0..10_000 {
            ratio.observe(1000, lie);
            assert!((LEAST..=MOST).contains(&ratio.ratio()));
        }
        assert!((ratio.ratio() / bound - 1.0).abs() < 0.01);
    }
    let mut ratio = Ratio::new(1.0);
    let mut random = Random(7);
    for _ in 0..10_000 {
        ratio.observe(
            random.next() >> (random.next() % 64),
            random.next() >> (random.next() % 64),
        );
        assert!((LEAST..=MOST).contains(&ratio.ratio()), "{ratio:?}");
    }
}

#[test]
fn one_lie_hardly_moves_what_was_learnt() {
    let mut random = Random(3);
    let mut ratio = Ratio::new(1.0);
    error_of(&mut ratio, &mut random, &[PROSE], 3000);
    let before = ratio.ratio();
    ratio.observe(u64::MAX, u64::MAX);
    ratio.observe(10_000_000, u64::MAX);
    ratio.observe(10_000_000, 1);
    assert!(
        (ratio.ratio() / before - 1.0).abs() < 0.02,
        "{before} {}",
        ratio.ratio()
    );
    ratio.observe(0, 5);
    ratio.observe(5, 0);
    assert_eq!(ratio.observed(), 3003);
}

#[test]
fn tiny_answers_hardly_move_it_and_do_not_keep_it_from_learning_of_texts() {
    for actual in [3, 30] {
        let mut ratio = Ratio::new(1.0);
        for answers in 1..=200 {
            ratio.observe(1, actual);
            let most = match answers {
                1..=2 => 1.005,
                3..=40 => 1.07,
                _ => 1.5,
            };
            assert!(
                (1.0..=most).contains(&ratio.ratio()),
                "{answers} of {actual}: {}",
                ratio.ratio()
            );
        }
    }
    // Texts that follow are learnt from as ever.
    for tiny in [2, 100] {
        let mut random = Random(13);
        let mut ratio = Ratio::new(1.0);
        for _ in 0..tiny {
            ratio.observe(1, 4);
        }
        error_of(&mut ratio, &mut random, &[PROSE], 300);
        let off = ratio.ratio() / PROSE.1 - 1.0;
        assert!(off.abs() <= 0.03, "after {tiny}: {off}");
    }
}

#[test]
fn state_is_read_back_and_damaged_state_is_not() {
    let mut random = Random(9);
    let mut ratio = Ratio::new(1.5);
    assert_eq!(Ratio::from_state(&ratio.state()), Some(ratio));
    error_of(&mut ratio, &mut random, &[PROSE, ODD], 500);
    let state = ratio.state();
    let read = Ratio::from_state(&state).unwrap();
    assert_eq!(read, ratio);
    assert_eq!(read.ratio(), ratio.ratio());

    assert_eq!(Ratio::from_state(&state[1..]), None);
    for (index, value) in [
        (0, 2.0),
        (1, 9.0),
        (3, f64::NAN),
        (4, 1e30),
        (5, 0.0),
        (7, 1e300),
        (8, -1.0),
        (14, f64::INFINITY),
    ] {
        let mut damaged = state;
        damaged[index] = value;
        assert_eq!(Ratio::from_state(&damaged), None, "number {index}");
    }
}

#[test]
fn an_estimate_is_carried_over_with_an_interval_that_holds() {
    let mut random = Random(11);
    let mut ratio = Ratio::new(1.0);
    let estimate = Estimate {
        tokens: 1000,
        low: 900,
        high: 1200,
    };
    let fresh = ratio.apply(estimate);
    assert_eq!(
        fresh,
        Estimate {
            tokens: 1000,
            low: 450,
            high: 2400
        }
    );
    error_of(&mut ratio, &mut random, &[PROSE, CODE], 5000);
    let mut inside = 0;
    for _ in 0..5000 {
        let (estimated, actual) = request(&mut random, &[PROSE, CODE]);
        let estimate = Estimate {
            tokens: estimated,
            low: estimated,
            high: estimated,
        };
        let said = ratio.apply(estimate);
        inside += u32::from((said.low..=said.high).contains(&actual));
    }
    assert!(inside >= 4900, "{inside} of 5000");
}
