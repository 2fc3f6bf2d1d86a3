//! Postal addresses as far as rules can: a street's word and a house number, with what stands around them.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// How a country writes a street; the value of an address is its words in lower case.
struct Form {
    #[cfg_attr(not(test), expect(dead_code, reason = "the table's own test names a form by it"))]
    name: &'static str,
    pattern: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "the table's own test reads them"))]
    samples: &'static [(&'static str, &'static str)],
    #[cfg_attr(not(test), expect(dead_code, reason = "the table's own test reads them"))]
    spared: &'static [&'static str],
}

const FORMS: [Form; 8] = [
    Form {
        name: "English",
        pattern: r"\b\d{1,5}[A-Za-z]? (?:[NSEW]\.? )?(?:[A-Z0-9][\w'’.-]* ){1,4}(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Square|Terrace|Crescent|Parkway|Pkwy|Highway|Hwy)\b\.?(?:,? (?:Apt|Apartment|Suite|Ste|Unit|Flat)\.? ?#?\w{1,6}|,? #\w{1,6})?(?:,? [A-Z][a-z'’-]+(?: [A-Z][a-z'’-]+){0,2})?(?:,? [A-Z]{2},? \d{5}(?:-\d{4})?|,? [A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}\b|,? \d{4,5}\b)?",
        samples: &[
            ("I live at 221B Baker Street, London NW1 6XE now.", "221B Baker Street, London NW1 6XE"),
            (
                "Ship to 742 Evergreen Terrace, Springfield, OR 97477.",
                "742 Evergreen Terrace, Springfield, OR 97477",
            ),
            ("350 Fifth Ave., Apt 12", "350 Fifth Ave., Apt 12"),
        ],
        spared: &[
            "In 2026 Wall Street crashed.",
            "3 old roads",
            "the 5 Street Fighter games",
            "2 Road trips",
        ],
    },
    Form {
        name: "German",
        pattern: r"(?:[A-ZÄÖÜ][\pL-]*(?:stra(?:ß|ss)e|str\.|allee|gasse|chaussee|straat|laan|gracht)|(?:[A-ZÄÖÜ][\pL.]*[ -]){1,3}(?:Stra(?:ß|ss)e|Str\.|Allee|Gasse|Chaussee)) ?\d{1,4} ?(?:[a-zA-Z]\b)?(?:-\d{1,4})?(?:,? (?:D-|A-|CH-|NL-)?\d{4,5}(?: [A-Z]{2}\b)? [A-ZÄÖÜ][\pL-]+(?: (?:am|an der|im|bei|ob der) [A-ZÄÖÜ][\pL-]+)?)?",
        samples: &[
            (
                "Wir wohnen in der Goethestraße 12, 60313 Frankfurt am Main.",
                "Goethestraße 12, 60313 Frankfurt am Main",
            ),
            ("Lieferung an Lange Str. 4a, bitte", "Lange Str. 4a"),
            ("Keizersgracht 123, 1015 CJ Amsterdam", "Keizersgracht 123, 1015 CJ Amsterdam"),
        ],
        spared: &["Die Straße 2026", "Sackgasse", "Autobahn 7"],
    },
    Form {
        name: "French",
        pattern: r"\b\d{1,4}(?: ?(?:bis|ter))?,? (?:rue|avenue|boulevard|place|chemin|impasse|allée|quai|cours|square) (?:(?:de la|de l['’]|de|du|des|d['’]|la|le|les) ?)?[A-ZÀ-Ý][\pL'’-]+(?: (?:(?:de|du|des|la|le) )?[A-ZÀ-Ý][\pL'’-]+){0,3}(?:,? \d{5} [A-ZÀ-Ý][\pL'’-]+)?",
        samples: &[("J'habite 12 rue de la Paix, 75002 Paris.", "12 rue de la Paix, 75002 Paris")],
        spared: &["en 2026 rue de rien", "la rue de la Paix"],
    },
    Form {
        name: "Spanish, Italian and Portuguese",
        pattern: r"\b(?:Calle|C/|Avenida|Avda\.?|Plaza|Paseo|Carrera|Rua|Via|Viale|Piazza|Corso) ?(?:(?:de la|de los|de las|de|del|della|di|da|do|dei) )?[A-ZÀ-Ý][\pL'’-]+(?: (?:(?:de|del|la|della|di|da|do) )?[A-ZÀ-Ý][\pL'’-]+){0,3},? (?:n[ºo°.]{1,2} ?)?\d{1,4}\b(?:,? \d{5} [A-ZÀ-Ý][\pL'’-]+)?",
        samples: &[
            ("Vivo en Calle Mayor 12, 28013 Madrid.", "Calle Mayor 12, 28013 Madrid"),
            ("Via Roma, 5", "Via Roma, 5"),
        ],
        spared: &["Via email", "la Calle Mayor", "Via Zoom at 10"],
    },
    Form {
        name: "German with a code",
        pattern: r"(?:(?:Am|An der|An den|Im|In der|Auf der|Auf dem|Zum|Zur|Unter den) )?[A-ZÄÖÜ][\pL-]+ \d{1,4}[a-z]?,? (?:D-|A-|CH-)?\d{4,5} [A-ZÄÖÜ][\pL-]+",
        samples: &[
            ("Büro: Am Markt 7, 04109 Leipzig", "Am Markt 7, 04109 Leipzig"),
            ("Rosenweg 3, 8001 Zürich", "Rosenweg 3, 8001 Zürich"),
        ],
        spared: &["Sitzplatz 12 ist frei", "Spring 5 and Java 21", "Bahnsteig 4, Wagen 12"],
    },
    Form {
        name: "Chinese",
        pattern: r"\p{Han}{2,24}(?:路|街|大道|巷|胡同|弄|里)(?:\p{Han}?段)?\d{1,5}(?:号|號|弄)(?:院|[\p{Han}A-Za-z0-9-]{0,12}?(?:室|楼|樓|栋|号楼|单元|座|层))*",
        samples: &[
            ("我住在北京市朝阳区建国路88号2号楼1203室。", "北京市朝阳区建国路88号2号楼1203室"),
            ("地址：上海市浦东新区世纪大道100号", "上海市浦东新区世纪大道100号"),
            ("寄到台北市信义路五段7号", "台北市信义路五段7号"),
        ],
        spared: &["走了很多路88次", "一路2号线", "高速公路G88"],
    },
    Form {
        name: "Japanese",
        pattern: r"(?:〒\d{3}-\d{4} ?)?(?:東京都|北海道|京都府|大阪府|\p{Han}{2,3}県)[\p{Han}\p{Hiragana}\p{Katakana}ー]{1,16}\d{1,4}(?:(?:丁目|番地?|号)\d{0,4}|[-－−‐]\d{1,4}){1,4}(?:号|番地)?",
        samples: &[("住所は東京都千代田区丸の内1-9-2です", "東京都千代田区丸の内1-9-2")],
        spared: &["東京都の人口は1400万", "千葉県5位"],
    },
    Form {
        name: "Korean",
        pattern: r"(?:서울|부산|대구|인천|광주|대전|울산|세종|경기|강원|제주)(?:특별시|광역시|특별자치시|도|시)? (?:[가-힣]{1,5}(?:구|군|시) ){1,2}[가-힣0-9]{1,10}(?:로|길) ?\d{1,4}(?:-\d{1,3})?",
        samples: &[("주소는 서울특별시 중구 세종대로 110 입니다", "서울특별시 중구 세종대로 110")],
        spared: &["서울 중구에서 만나요", "서울에서 부산으로 110km"],
    },
];

/// Every address in the text.
pub(super) fn find(text: &str) -> Vec<(Range<usize>, String)> {
    static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
        FORMS.iter().map(|form| Regex::new(form.pattern).expect("the pattern is fixed")).collect()
    });
    let mut all: Vec<(Range<usize>, String)> = Vec::new();
    for pattern in PATTERNS.iter() {
        for (range, value) in matches(pattern, text) {
            if all.iter().all(|(other, _)| other.end <= range.start || range.end <= other.start) {
                all.push((range, value));
            }
        }
    }
    all.sort_by_key(|(range, _)| range.start);
    all
}

fn matches(pattern: &Regex, text: &str) -> Vec<(Range<usize>, String)> {
    let found = pattern.find_iter(text).filter_map(|found| {
        let start = found.start() + prelude(found.as_str());
        let address = text[start..found.end()].trim_end();
        let alone = !text[..start]
            .chars()
            .next_back()
            .is_some_and(|c| c.is_ascii_alphanumeric() || "-_./$".contains(c));
        let named = !["Straße", "Strasse", "Str.", "Allee", "Gasse", "Chaussee"]
            .iter()
            .any(|word| address.starts_with(word));
        (alone && named && !begins_with_a_year(address)).then(|| {
            let words: Vec<&str> = address
                .split(|c: char| c.is_whitespace() || ",，.".contains(c))
                .filter(|word| !word.is_empty())
                .collect();
            (start..start + address.len(), words.join(" ").to_lowercase())
        })
    });
    found.collect()
}

/// In Chinese the words before an address are written together with it; a German preposition may look like a street's.
fn prelude(text: &str) -> usize {
    const LEADS: [char; 16] =
        ['在', '到', '于', '於', '是', '去', '为', '往', '从', '從', '址', '给', '住', '寄', '至', '我'];
    let name = text.find(['省', '市', '区', '區', '县', '路', '街', '道', '巷']).unwrap_or(0);
    let lead =
        text[..name].rfind(LEADS).map_or(0, |at| at + text[at..].chars().next().map_or(0, char::len_utf8));
    let article = ["In der ", "In ", "Der ", "Die ", "An der ", "Unsere ", "Meine "];
    lead.max(article.iter().find(|article| text.starts_with(**article)).map_or(0, |article| article.len()))
}

/// "2026 Wall Street" is a year and a street, unless a postal code follows.
fn begins_with_a_year(address: &str) -> bool {
    let number: String = address.chars().take_while(char::is_ascii_digit).collect();
    let is_year = number.parse().is_ok_and(|year: u32| (1900..2100).contains(&year));
    is_year && !address[number.len()..].chars().any(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::{FORMS, find};

    #[test]
    fn every_form_finds_its_samples_and_spares_what_it_must() {
        let mut wrong = Vec::new();
        for form in &FORMS {
            for (text, address) in form.samples {
                let found: Vec<_> = find(text).into_iter().map(|(range, _)| &text[range]).collect();
                if found != [*address] {
                    wrong.push(format!("{}: {found:?} in {text}", form.name));
                }
            }
            for text in form.spared {
                let found: Vec<_> = find(text).into_iter().map(|(range, _)| &text[range]).collect();
                if !found.is_empty() {
                    wrong.push(format!("{} takes {found:?} of {text}", form.name));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
