//! Laws of the check; the lists of lies and true paraphrases are read where drafts are checked.

use proptest::prelude::*;

use super::*;

fn user(text: &str) -> Vec<Said> {
    vec![Said { text: text.to_owned(), voice: Voice::User }]
}

#[test]
fn what_is_wrong_is_told_in_words_that_a_model_can_mend_it_by() {
    for (claim, said, why) in [
        ("The user eats pork.", "I never eat pork.", "negation is lost"),
        ("The user does not eat pork.", "I eat pork.", "negation is added"),
        ("The user lives in Oslo.", "Bob lives in Oslo.", "say it of bob"),
        ("The user has several cats.", "I have seven cats.", "the chunks say 7"),
        ("Bob owes Alice money.", "Alice owes Bob money.", "changed places"),
    ] {
        let found = misread(claim, &user(said));
        assert!(found.iter().any(|problem| problem.contains(why)), "{claim}: {found:?}");
    }
}

proptest! {
    #[test]
    fn a_memory_says_what_it_says(text in "(the user |bob |alice |owes |not |never |likes |if |maybe |used to |7 |cats |oslo|, |and |\\. ){0,10}") {
        let own = vec![Said { text: text.clone(), voice: Voice::Memory }];
        let found = misread(&text, &own);
        // A memory that asks or doubts keeps doing so in its own words; nothing else may be found in it.
        prop_assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn any_texts_can_be_compared(a in "(\\PC|我|不|吃|ない|안 | not | if |7 |\\?){0,30}", b in "(\\PC|我|不|吃|ない|안 | not | if |7 |\\?){0,30}") {
        misread(&a, &user(&b));
    }
}
