//! From a text to the sum of its hashed features: words, pieces of words, characters and pairs of them.
//! Everything here is stored in people's tables as vectors: a change to any rule, weight or word list is a new model
//! and needs a new name.

use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization;

use super::WIDTH as DIM;

/// Weights, chosen on `pairs.tsv` and on how well neighbouring messages of MemoryBank's dialogues are told from those
/// of other people; rounded, because both are small.
mod weight {
    pub(super) const WORD: f32 = 1.0;
    pub(super) const GRAM: f32 = 0.4;
    pub(super) const NUMBER: f32 = 1.0;
    pub(super) const IDEOGRAM: f32 = 1.0;
    pub(super) const IDEOGRAM_PAIR: f32 = 0.6;
    pub(super) const SYLLABLE: f32 = 1.5;
    pub(super) const SYLLABLE_PAIR: f32 = 0.5;
    pub(super) const SYLLABLE_WORD: f32 = 0.5;
    /// Factor of words that say little.
    pub(super) const COMMON: f32 = 0.4;
}

/// Words that say little: grammar, greetings and thanks, and "user", which is in nearly every memory.
const COMMON_WORDS: &[&str] = &[
    "a", "about", "after", "all", "also", "always", "am", "an", "and", "any", "are", "as", "at", "be",
    "been", "before", "but", "by", "bye", "can", "could", "d", "did", "do", "does", "don", "for", "from",
    "good", "goodbye", "great", "had", "has", "have", "he", "hello", "her", "hey", "hi", "him", "his", "how",
    "i", "if", "in", "into", "is", "it", "its", "just", "lately", "like", "ll", "m", "me", "more", "most",
    "much", "my", "no", "not", "now", "of", "oh", "ok", "okay", "on", "only", "or", "our", "out", "over",
    "please", "re", "really", "recently", "s", "she", "should", "so", "some", "sure", "t", "than", "thank",
    "thanks", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to",
    "today", "too", "up", "use", "used", "user", "ve", "very", "was", "we", "well", "were", "what", "when",
    "where", "which", "who", "will", "with", "would", "yeah", "yes", "you", "your",
];

/// Chinese characters that say little.
const COMMON_IDEOGRAMS: &str =
    "的了是在我你他她它们这那有和就不也都很吗呢吧啊呀着过会要能可以个一说啦嘛么什怎为与及或被把给让对从到";

/// Common words of scripts that do not set words apart, and the word of [`COMMON_WORDS`] they count as.
const COMMON_PHRASES: &[(&str, &str)] = &[
    ("用户", "user"),
    ("用戶", "user"),
    ("ユーザー", "user"),
    ("사용자", "user"),
    ("你好", "hello"),
    ("您好", "hello"),
    ("こんにちは", "hello"),
    ("안녕하세요", "hello"),
    ("谢谢", "thanks"),
    ("感谢", "thanks"),
    ("謝謝", "thanks"),
    ("ありがとうございます", "thanks"),
    ("ありがとう", "thanks"),
    ("감사합니다", "thanks"),
    ("好的", "okay"),
    ("今天", "today"),
    ("今日", "today"),
    ("오늘", "today"),
    ("最近", "recently"),
    ("非常", "very"),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Script {
    /// Han and kana.
    Ideogram,
    Hangul,
    Number,
    /// Any script with words of letters.
    Letter,
    /// Spaces, punctuation, symbols.
    Gap,
}

fn script(c: char) -> Script {
    match c {
        '々' | '〇' => Script::Ideogram,
        '\u{3041}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' if c != '・' => Script::Ideogram,
        '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' => Script::Ideogram,
        '\u{20000}'..='\u{3ffff}' => Script::Ideogram,
        '\u{ac00}'..='\u{d7a3}' | '\u{1100}'..='\u{11ff}' | '\u{3130}'..='\u{318f}' => Script::Hangul,
        c if c.is_numeric() => Script::Number,
        c if c.is_alphabetic() => Script::Letter,
        // Combining marks that stand inside the words of Indic and Arabic scripts.
        '\u{300}'..='\u{36f}' | '\u{64b}'..='\u{65f}' | '\u{900}'..='\u{dff}' | '\u{e31}'..='\u{e4e}' => {
            Script::Letter
        }
        _ => Script::Gap,
    }
}

/// The unit vector of a text. One without any word has the vector of a feature that no word has.
pub(super) fn vector(text: &str) -> Vec<f32> {
    let mut features = Features::default();
    features.add_text(text);
    if features.0.is_empty() {
        features.add("empty", "", 1.0);
    }
    let mut vector = vec![0.0_f64; DIM];
    for (hash, (count, weight)) in features.0 {
        let value = f64::from(weight) * (1.0 + f64::from(count).ln());
        // Low bits choose the place, the top bit the sign, so that collisions cancel out on average.
        let place = (hash % DIM as u64) as usize;
        vector[place] += if hash >> 63 == 0 { value } else { -value };
    }
    let norm = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    if norm == 0.0 {
        // Two features of one text cancelled out; nothing else is in it.
        vector[0] = 1.0;
        return vector.into_iter().map(|x| x as f32).collect();
    }
    vector.into_iter().map(|x| (x / norm) as f32).collect()
}

/// Hash of a feature → how often it occurs, and its weight. Ordered, so that sums round the same every time.
#[derive(Default)]
struct Features(BTreeMap<u64, (u32, f32)>);

impl Features {
    fn add(&mut self, kind: &str, text: &str, weight: f32) {
        self.0.entry(hash(kind, text)).or_insert((0, weight)).0 += 1;
    }

    fn add_text(&mut self, text: &str) {
        let mut text: String = text.nfkc().flat_map(char::to_lowercase).collect();
        for (phrase, word) in COMMON_PHRASES {
            if text.contains(phrase) {
                text = text.replace(phrase, &format!(" {word} "));
            }
        }
        let chars: Vec<char> = text.chars().collect();
        for run in chars.chunk_by(|a, b| script(*a) == script(*b)) {
            match script(run[0]) {
                Script::Ideogram => self.add_ideograms(run),
                Script::Hangul => self.add_syllables(run),
                Script::Number => self.add("number", &String::from_iter(run), weight::NUMBER),
                Script::Letter => self.add_word(run),
                Script::Gap => {}
            }
        }
    }

    /// A word, and its pieces of three and four letters with its ends marked, which survive inflection and typing
    /// errors. Common words have no pieces.
    fn add_word(&mut self, letters: &[char]) {
        let word = String::from_iter(letters);
        if COMMON_WORDS.contains(&word.as_str()) {
            return self.add("word", &word, weight::WORD * weight::COMMON);
        }
        self.add("word", &word, weight::WORD);
        let marked: Vec<char> = ['<'].into_iter().chain(letters.iter().copied()).chain(['>']).collect();
        for length in [3, 4] {
            for gram in marked.windows(length) {
                self.add("gram", &String::from_iter(gram), weight::GRAM);
            }
        }
    }

    fn add_ideograms(&mut self, run: &[char]) {
        let common = |c: &char| COMMON_IDEOGRAMS.contains(*c);
        for c in run {
            let factor = if common(c) { weight::COMMON } else { 1.0 };
            self.add("character", &c.to_string(), weight::IDEOGRAM * factor);
        }
        for pair in run.windows(2) {
            let factor = if pair.iter().all(common) { weight::COMMON } else { 1.0 };
            self.add("pair", &String::from_iter(pair), weight::IDEOGRAM_PAIR * factor);
        }
    }

    fn add_syllables(&mut self, run: &[char]) {
        self.add("word", &String::from_iter(run), weight::SYLLABLE_WORD);
        for c in run {
            self.add("character", &c.to_string(), weight::SYLLABLE);
        }
        for pair in run.windows(2) {
            self.add("pair", &String::from_iter(pair), weight::SYLLABLE_PAIR);
        }
    }
}

/// FNV-1a (64 bits: offset basis cbf29ce484222325, prime 100000001b3) over the kind, a zero byte and the text in
/// UTF-8; then MurmurHash3's finaliser, because FNV's high bits hardly depend on the last bytes.
fn hash(kind: &str, text: &str) -> u64 {
    let bytes = kind.bytes().chain([0]).chain(text.bytes());
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}
