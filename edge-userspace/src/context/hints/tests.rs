use super::*;

/// Numbers that look random and are the same each time (Steele, Lea, Flood: SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ word >> 31) % end as u64) as usize
    }

    fn word(&mut self) -> String {
        let letters = 3 + self.below(7);
        (0..letters)
            .map(|_| char::from(b'a' + self.below(26) as u8))
            .collect()
    }

    fn words(&mut self, count: usize) -> String {
        let words: Vec<_> = (0..count).map(|_| self.word()).collect();
        words.join(" ")
    }
}

const CODE: usize = 0;
const ESSAY: usize = 1;
const JSON: usize = 2;
const RANDOM: usize = 3;

/// What a user asks and how the answer begins; now and then a model does something else.
fn turn(class: usize, random: &mut Random) -> (String, String) {
    let is_odd = random.below(100) < 2;
    let rest = random.words(12);
    let (message, opening) = match class {
        CODE => ("Write a Python function that ", "```python\ndef "),
        ESSAY => ("Please write an essay about ", "In this essay, we look at "),
        JSON => ("Extract the fields of this invoice: ", "{\"number\": "),
        _ => return (random.words(9), random.words(9)),
    };
    let opening = if is_odd { "I am sorry, " } else { opening };
    (format!("{message}{rest}"), format!("{opening}{rest}"))
}

fn head(context: u64) -> Fingerprint {
    Fingerprint::new([context, 7])
}

/// Of each class: turns, told, told rightly.
fn play(hints: &Hints, turns: usize, context: impl Fn(usize) -> Fingerprint) -> [[u32; 3]; 4] {
    let mut random = Random(1);
    let mut tally = [[0; 3]; 4];
    for _ in 0..turns {
        let class = random.below(4);
        let (message, answer) = turn(class, &mut random);
        let question = hints.ask(Tenant(1), context(class), message.as_bytes(), true);
        let [all, told, right] = &mut tally[class];
        *all += 1;
        if let Some(hint) = question.told() {
            *told += 1;
            *right += u32::from(answer.starts_with(hint));
        }
        let end = answer.len().min(MOST_BYTES);
        hints.learn(&question, &answer.as_bytes()[..end]);
    }
    tally
}

fn hints() -> Hints {
    Hints::new(1 << 14, Counters::default())
}

#[test]
fn a_mixture_of_answers_is_predicted_where_it_can_be() {
    // All in one context, then each class in a context of its own.
    let one: fn(usize) -> Fingerprint = |_| head(1);
    let own: fn(usize) -> Fingerprint = |class| head(class as u64 + 1);
    for context in [one, own] {
        let hints = hints();
        play(&hints, 1_000, context);
        let tally = play(&hints, 10_000, context);
        let [mut told_of_all, mut right_of_all] = [0; 2];
        for class in [CODE, ESSAY, JSON] {
            let [all, told, right] = tally[class];
            assert!(told * 100 >= all * 60, "class {class}: {told} of {all}");
            told_of_all += told;
            right_of_all += right;
        }
        assert!(right_of_all * 100 >= told_of_all * 92, "{tally:?}");
        assert_eq!(
            tally[RANDOM][1], 0,
            "nothing is told of what differs each time"
        );
        let counted = |outcome| hints.outcomes.get(outcome);
        assert!(counted(HintOutcome::Right) * 100 >= 92 * counted(HintOutcome::Told));
        assert_eq!(
            counted(HintOutcome::Right) + counted(HintOutcome::Wrong),
            counted(HintOutcome::Told)
        );
    }
}

#[test]
fn nothing_is_told_to_who_did_not_ask_and_all_is_measured() {
    let hints = hints();
    let answer = b"{\"number\": 12, \"sum\": 3}";
    for _ in 0..100 {
        let question = hints.ask(Tenant(1), head(1), b"Go on", false);
        assert_eq!(question.told(), None);
        hints.learn(&question, answer);
    }
    assert_eq!(hints.outcomes.get(HintOutcome::QuietlyRight), 92);
    let asked = hints.ask(Tenant(1), head(1), b"Go on", true);
    assert_eq!(asked.told(), Some("{\"number\": 12, \"sum\": 3}"));
    assert_eq!(hints.outcomes.get(HintOutcome::Told), 1);
}

#[test]
fn answers_without_text_make_a_prediction_wrong_and_teach_nothing() {
    let hints = hints();
    let ask = || hints.ask(Tenant(1), head(1), b"Go on", true);
    for _ in 0..8 {
        hints.learn(&ask(), b"I will check that");
    }
    let mut told = 0;
    for _ in 0..200 {
        let question = ask();
        told += u32::from(question.told().is_some());
        hints.learn(&question, b"");
    }
    assert!(told < 40, "told {told} until it was noticed");
    assert_eq!(hints.outcomes.get(HintOutcome::Wrong), u64::from(told));
    let question = hints.ask(Tenant(2), head(1), b"Go on", true);
    hints.unseen(&question);
    assert_eq!(
        hints.outcomes.get(HintOutcome::Unseen),
        0,
        "nothing was told"
    );
}

#[test]
fn another_tenant_with_the_same_texts_is_told_nothing() {
    let hints = hints();
    for _ in 0..100 {
        let question = hints.ask(Tenant(1), head(1), b"Go on", true);
        hints.learn(&question, b"{\"number\": 12}");
    }
    for (tenant, context) in [(2, 1), (1, 2)] {
        let question = hints.ask(Tenant(tenant), head(context), b"Go on", true);
        assert_eq!(question.told(), None);
    }
}

#[test]
fn hints_stop_when_they_are_wrong_too_often_and_come_back() {
    let hints = hints();
    // Contexts that are learnt and then change their habit all at once.
    let say = |answer: &str, contexts: std::ops::Range<u64>, times: usize| {
        let mut told = 0;
        for context in contexts {
            for _ in 0..times {
                let question = hints.ask(Tenant(1), head(context), b"Go on", true);
                told += u32::from(question.told().is_some());
                hints.learn(&question, answer.as_bytes());
            }
        }
        told
    };
    assert_eq!(say("Certainly, here it is", 0..64, 8), 0);
    let before = say("{\"a\": 1}", 0..64, 1);
    assert!(
        (8..40).contains(&before),
        "told {before} until it was noticed"
    );
    assert!(hints.outcomes.get(HintOutcome::Withheld) > 0);
    // What is right from now on is not told before it has been right for a while.
    let after = say("Of course: yes, it is", 100..101, 600);
    assert!((200..500).contains(&after), "told {after}");
}

#[test]
fn what_a_model_said_is_in_no_debug_text() {
    let hints = hints();
    for _ in 0..20 {
        let question = hints.ask(Tenant(1), head(1), b"Go on", true);
        hints.learn(&question, b"my name is Ada");
    }
    let question = hints.ask(Tenant(1), head(1), b"Go on", true);
    assert!(question.told().is_some());
    assert!(!format!("{question:?}").contains("Ada"));
}
