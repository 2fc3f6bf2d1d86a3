//! Privacy: secrets are removed for good, personal data is masked for providers beyond this machine.
//! [`Outbound`] is text that may leave; only [`Privacy`] can build it, so that the compiler enforces the policy.

mod personal;
mod placeholder;
mod plain;
mod secret;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use crate::config::MaskPii;
use placeholder::{Dictionary, Literal};

pub use placeholder::Key;
pub use secret::{Cleaned, without_secrets};

/// Text that may leave this process, to a provider. Only [`Privacy`] makes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Outbound(String);

impl Outbound {
    /// The text as it will be sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a run may keep and what it may send, with the run's dictionary of placeholders.
///
/// A value (an address, whatever its case; a number, whatever its separators) has one placeholder for the whole run, such as
/// `[PHONE_1]`; it comes back in the spelling that was met first. With a [`Key`] it is the same on every night.
#[derive(Debug)]
pub struct Privacy {
    mask: MaskPii,
    beyond_loopback: bool,
    dictionary: Mutex<Dictionary>,
}

impl Privacy {
    /// The policy of a run whose language model is, or is not, beyond this machine (see [`is_loopback`]). Placeholders
    /// are counted from one: they are good for this run only.
    pub fn new(mask: MaskPii, beyond_loopback: bool) -> Self {
        Self { mask, beyond_loopback, dictionary: Mutex::default() }
    }

    /// The same with placeholders that follow from the value and the key, for text that is kept.
    pub fn keyed(mask: MaskPii, beyond_loopback: bool, key: Key) -> Self {
        Self { mask, beyond_loopback, dictionary: Mutex::new(Dictionary::keyed(key)) }
    }

    /// What may be kept of a text: no secrets, and with [`MaskPii::Always`] placeholders for personal data. Doing it twice
    /// changes nothing.
    pub fn to_store(&self, text: &str) -> String {
        if self.mask == MaskPii::Always { self.kept(text) } else { without_secrets(text).text }
    }

    /// A stored text for the embedder: exactly the stored words, because the gateway embeds those too. Should a secret
    /// be in it all the same, it goes.
    pub fn to_embed(&self, stored: &str) -> Outbound {
        Outbound(without_secrets(stored).text)
    }

    /// A text for a prompt: no secrets, and placeholders for personal data where the policy wants them.
    pub fn to_prompt(&self, text: &str) -> Outbound {
        Outbound(match self.mask {
            MaskPii::Always => self.kept(text),
            MaskPii::External if self.beyond_loopback => {
                self.masked(&without_secrets(text).text, Literal::IsText)
            }
            MaskPii::External | MaskPii::Never => without_secrets(text).text,
        })
    }

    /// A model's reply with the values of its placeholders, however the model spelt or inflected them; with
    /// [`MaskPii::Always`] they stay, as they do in the store. What is no placeholder of this run stays as it is.
    pub fn restore(&self, reply: &str) -> String {
        let dictionary = self.dictionary.lock().unwrap_or_else(PoisonError::into_inner);
        if self.mask == MaskPii::Always { dictionary.straighten(reply) } else { dictionary.restore(reply) }
    }

    /// A placeholder may make its neighbour look like a secret, as in "the password of [EMAIL_1]: 12345"; so this goes on
    /// until nothing changes.
    fn kept(&self, text: &str) -> String {
        const ROUNDS: usize = 8;
        let mut kept = text.to_owned();
        for _ in 0..ROUNDS {
            let next = self.masked(&without_secrets(&kept).text, Literal::IsPlaceholder);
            if next == kept {
                break;
            }
            kept = next;
        }
        kept
    }

    fn masked(&self, text: &str, literal: Literal) -> String {
        self.dictionary.lock().unwrap_or_else(PoisonError::into_inner).mask(text, literal)
    }
}

/// Whether a server's address is this machine: `localhost`, `127.0.0.0/8` or `[::1]`. In doubt it is not.
pub fn is_loopback(url: &str) -> bool {
    // Parsers disagree on where a host ends that holds a backslash.
    if url.contains('\\') {
        return false;
    }
    let rest = url.trim().split_once("://").map_or(url.trim(), |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    if let Some(inside) = host.strip_prefix('[') {
        let address = inside.split(']').next().unwrap_or_default();
        return address.parse::<Ipv6Addr>().is_ok_and(|address| {
            address.is_loopback() || address.to_ipv4_mapped().is_some_and(|address| address.is_loopback())
        });
    }
    let name = host.split(':').next().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn external() -> Privacy {
        Privacy::new(MaskPii::External, true)
    }

    #[test]
    fn prompts_beyond_this_machine_carry_placeholders_and_replies_get_the_values_back() {
        let privacy = external();
        let prompt = privacy
            .to_prompt("Anna: anna@example.org, +49 171 2345678; Bob: bob@example.org, ANNA@example.org");
        assert_eq!(prompt.as_str(), "Anna: [EMAIL_1], [PHONE_1]; Bob: [EMAIL_2], [EMAIL_1]");
        assert_eq!(privacy.to_prompt("again bob@example.org").as_str(), "again [EMAIL_2]");
        let reply = r#"{"text": "Anna's number is [PHONE_1], Bob's mail [email_2], none is [EMAIL_9]"}"#;
        let restored =
            r#"{"text": "Anna's number is +49 171 2345678, Bob's mail bob@example.org, none is [EMAIL_9]"}"#;
        assert_eq!(privacy.restore(reply), restored);
    }

    #[test]
    fn each_policy_masks_where_it_says() {
        let text = "mail anna@example.org, password: hunter2";
        let bare = "mail anna@example.org, password: [secret removed]";
        let masked = "mail [EMAIL_1], password: [secret removed]";
        let cases = [
            (MaskPii::External, true, bare, masked),
            (MaskPii::External, false, bare, bare),
            (MaskPii::Always, false, masked, masked),
            (MaskPii::Never, true, bare, bare),
        ];
        for (mask, beyond, stored, sent) in cases {
            let privacy = Privacy::new(mask, beyond);
            assert_eq!(privacy.to_store(text), stored, "{mask:?}");
            assert_eq!(privacy.to_prompt(text).as_str(), sent, "{mask:?}");
            assert_eq!(privacy.to_embed(stored).as_str(), stored, "{mask:?}");
        }
        let always = Privacy::new(MaskPii::Always, true);
        assert_eq!(always.restore(&always.to_store(text)), masked);
    }

    #[test]
    fn a_placeholder_comes_back_however_the_model_writes_it() {
        let privacy = external();
        privacy.to_prompt("+49 171 2345678, anna@example.org, DE89 3704 0044 0532 0130 00");
        let cases = [
            ("call <PHONE_1>s", "call +49 171 2345678s"),
            ("[phone 1]'s owner", "+49 171 2345678's owner"),
            ("<Phone-1>, {PHONE_1}, 【电话_1】", "+49 171 2345678, +49 171 2345678, +49 171 2345678"),
            ("[PHONE_1s] and [PHONE_1's]", "+49 171 2345678s and +49 171 2345678's"),
            ("[PHONES_1]", "+49 171 2345678"),
            ("(PHONE_1) or PHONE_1.", "(+49 171 2345678) or +49 171 2345678."),
            ("[ EMAIL_1 ]的邮箱", "anna@example.org的邮箱"),
            ("[E-Mail 1], [Telefon_1]", "anna@example.org, +49 171 2345678"),
            ("[IBAN_1]", "DE89 3704 0044 0532 0130 00"),
        ];
        for (reply, restored) in cases {
            assert_eq!(privacy.restore(reply), restored);
        }
    }

    #[test]
    fn what_is_no_placeholder_of_the_run_is_left_alone() {
        let privacy = external();
        privacy.to_prompt("+49 171 2345678");
        for reply in [
            "[PHONE_2]",
            "[PHONE_11]",
            "PHONE_11",
            "MY_PHONE_1",
            "PHONE_1_OLD",
            "PHONE_1=x",
            "the phone 1 is broken",
            "phone_1",
            "[EMAIL_1]",
            "[CARD_1]",
            "<p1>",
            "[1]",
            "[chunk 1]",
            "{\"phone_1\": 1}",
        ] {
            assert_eq!(privacy.restore(reply), reply);
        }
    }

    #[test]
    fn with_a_key_a_value_has_one_placeholder_on_every_night() {
        let night = |byte| Privacy::keyed(MaskPii::Always, true, Key::from_bytes([byte; 32]));
        let text = "mail anna@example.org or call +49 171 2345678";
        let first = night(7).to_store(text);
        assert!(!first.contains("anna") && !first.contains("171"), "{first}");
        let second = night(7);
        second.to_store("first came bob@example.org and 0049 171 2345678");
        assert_eq!(second.to_store(text), first);
        assert_eq!(second.to_store(&first), first, "masking twice changes nothing");
        assert_ne!(night(8).to_store(text), first, "another home's placeholders tell nothing");
        let loose = first.replace('[', "<").replace(']', ">").to_lowercase();
        assert_eq!(second.restore(&loose), first, "the stored spelling comes back");
    }

    #[test]
    fn each_kind_of_personal_data_is_masked_and_comes_back() {
        let privacy = external();
        for (text, kind) in [
            ("mail anna@example.org today", "EMAIL"),
            ("ring +49 171 2345678 today", "PHONE"),
            ("card 4111 1111 1111 1111 today", "CARD"),
            ("account DE89 3704 0044 0532 0130 00 today", "IBAN"),
            ("身份证号11010519491231002X在这里", "NATIONAL_ID"),
            ("SSN 123-45-6789 today", "NATIONAL_ID"),
            ("Steuer-ID: 86 095 742 719 heute", "NATIONAL_ID"),
            ("she lives at 742 Evergreen Terrace, Springfield today", "ADDRESS"),
            ("我住在北京市朝阳区建国路88号2号楼1203室。", "ADDRESS"),
        ] {
            let sent = privacy.to_prompt(text);
            assert!(sent.as_str().contains(&format!("[{kind}_")), "{}", sent.as_str());
            assert_eq!(privacy.restore(sent.as_str()), text);
        }
    }

    #[test]
    fn a_literal_that_looks_like_a_placeholder_comes_back_as_it_was() {
        let privacy = external();
        let first = privacy.to_prompt("[EMAIL_1] is not anna@example.org");
        assert_eq!(first.as_str(), "[EMAIL_1] is not [EMAIL_2]");
        let later = privacy.to_prompt("someone wrote [EMAIL_2]");
        assert_eq!(later.as_str(), "someone wrote [EMAIL_3]");
        assert_eq!(privacy.restore(first.as_str()), "[EMAIL_1] is not anna@example.org");
        assert_eq!(privacy.restore(later.as_str()), "someone wrote [EMAIL_2]");
    }

    #[test]
    fn a_value_comes_back_in_the_spelling_that_was_met_first() {
        let privacy = external();
        let prompt = privacy.to_prompt("(415) 555-2671 or +1 415 555 2671");
        assert_eq!(prompt.as_str(), "[PHONE_1] or [PHONE_1]");
        assert_eq!(privacy.restore("call [PHONE_1]"), "call (415) 555-2671");
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for url in [
            "http://localhost:11434",
            "http://127.0.0.1/v1",
            "https://127.8.9.1:80",
            "http://[::1]:8080/v1",
            "http://user:pw@LOCALHOST./v1",
            "localhost:1234",
            "http://[::ffff:127.0.0.1]/",
        ] {
            assert!(is_loopback(url), "{url}");
        }
        for url in [
            "https://api.openai.com/v1",
            "http://localhost.example.org",
            "http://127.0.0.1.example.org",
            "http://10.0.0.1",
            "http://example.org/?u=localhost",
            "http://localhost@example.org",
            "http://example.org\\@127.0.0.1/",
            "",
        ] {
            assert!(!is_loopback(url), "{url}");
        }
    }

    /// Words, secrets, personal data (each value in one spelling) and literals, mixed.
    fn texts() -> impl Strategy<Value = String> {
        let pieces = [
            "Anna",
            " ",
            ", ",
            "\n",
            "电话",
            "：",
            "anna@example.org",
            "bob.b@mail.example.com",
            "+49 171 2345678",
            "13812345678",
            "(415) 555-2671",
            "4111 1111 1111 1111",
            "[EMAIL_1]",
            "[PHONE_2]",
            "[card_1]",
            "PHONE_1",
            "<phone 2>",
            "EMAIL_1s",
            "DE89 3704 0044 0532 0130 00",
            "123-45-6789",
            "北京市朝阳区建国路88号",
            "742 Evergreen Terrace",
            "[EMAIL_",
            "1]",
            "password: hunter2",
            "sk-abcdefgh12345678ijkl",
            "token=",
            "2026-11-30",
            "12:30",
            "密码是",
            "abc123456",
            ":",
            "-",
            "Bearer ",
            "[secret removed]",
            "https://a:b@example.org",
            "-----BEGIN PRIVATE KEY-----",
            "\"",
            "my password is",
        ];
        let piece = prop_oneof![
            4 => proptest::sample::select(pieces.to_vec()).prop_map(str::to_owned),
            1 => "\\PC{0,6}",
        ];
        proptest::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn masking_twice_changes_nothing(text in texts()) {
            let privacy = Privacy::new(MaskPii::Always, true);
            let once = privacy.to_store(&text);
            prop_assert_eq!(privacy.to_store(&once), once.clone());
            prop_assert_eq!(privacy.to_prompt(&once).0, once.clone());
        }

        #[test]
        fn what_was_masked_comes_back(text in texts(), earlier in texts()) {
            let privacy = external();
            privacy.to_prompt(&earlier);
            let sent = privacy.to_prompt(&text);
            prop_assert_eq!(privacy.restore(sent.as_str()), without_secrets(&text).text);
        }

        #[test]
        fn removing_secrets_twice_changes_nothing(text in texts()) {
            let once = without_secrets(&text);
            let twice = without_secrets(&once.text);
            prop_assert_eq!((twice.text, twice.removed), (once.text, 0));
        }

        #[test]
        fn any_text_is_bearable(text in "\\PC*") {
            let privacy = external();
            let sent = privacy.to_prompt(&text);
            prop_assert_eq!(privacy.restore(sent.as_str()), without_secrets(&text).text);
        }
    }
}
