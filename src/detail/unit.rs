//! Units of measure in several languages, each with its canonical unit and how many of those it is.

/// A canonical unit and the factor to it; `None` where a number has no unit.
pub(super) type Unit = Option<(&'static str, f64)>;

/// Canonical unit, factor, and the words for it. English words in the singular.
#[rustfmt::skip]
const UNITS: &[(&str, f64, &[&str])] = &[
    ("ms", 1.0, &["ms", "millisecond", "毫秒"]),
    ("s", 1.0, &["s", "sec", "second", "sekunde", "seconde", "segundo", "秒钟", "秒間", "秒", "초"]),
    ("s", 60.0, &["min", "minute", "minuto", "分钟", "分鐘", "分間", "分", "분"]),
    ("s", 3600.0, &["h", "hr", "hour", "stunde", "heure", "hora", "小时", "小時", "个小时", "個小時", "个钟头", "時間", "시간"]),
    ("d", 1.0, &["day", "tag", "jour", "día", "天", "日間", "日间", "日", "일간", "일"]),
    ("d", 7.0, &["week", "woche", "semaine", "semana", "周", "週間", "个星期", "个礼拜", "星期", "주"]),
    ("month", 1.0, &["month", "monat", "mois", "mes", "个月", "個月", "ヶ月", "か月", "カ月", "개월"]),
    ("year", 1.0, &["year", "yr", "jahr", "an", "año", "年间", "年間", "年", "년", "岁", "歲", "歳", "살", "세"]),
    ("%", 1.0, &["%", "percent", "prozent", "パーセント", "퍼센트"]),
    ("USD", 1.0, &["$", "dollar", "usd", "美元", "美金", "ドル", "달러"]),
    ("EUR", 1.0, &["€", "euro", "eur", "欧元", "ユーロ", "유로"]),
    ("GBP", 1.0, &["£", "pound", "gbp", "英镑"]),
    ("CNY", 1.0, &["yuan", "rmb", "cny", "元", "块钱", "块", "人民币"]),
    ("JPY", 1.0, &["yen", "jpy", "円", "日元"]),
    ("¥", 1.0, &["¥"]),
    ("KRW", 1.0, &["₩", "원", "won"]),
    ("mm", 1.0, &["mm"]),
    ("mm", 10.0, &["cm", "厘米"]),
    ("m", 1.0, &["m", "meter", "metre", "米"]),
    ("m", 1000.0, &["km", "kilometer", "kilometre", "公里", "千米", "キロメートル"]),
    ("mile", 1.0, &["mile", "英里"]),
    ("g", 1.0, &["g", "gram", "克"]),
    ("g", 1000.0, &["kg", "kilo", "kilogram", "公斤", "千克", "キログラム"]),
    ("g", 500.0, &["斤"]),
    ("KB", 1.0, &["kb"]),
    ("MB", 1.0, &["mb"]),
    ("GB", 1.0, &["gb"]),
    ("TB", 1.0, &["tb"]),
    ("KiB", 1.0, &["kib"]),
    ("MiB", 1.0, &["mib"]),
    ("GiB", 1.0, &["gib"]),
    ("Hz", 1.0, &["hz"]),
    ("MHz", 1.0, &["mhz"]),
    ("GHz", 1.0, &["ghz"]),
    ("px", 1.0, &["px"]),
    ("°C", 1.0, &["°c"]),
    ("°F", 1.0, &["°f"]),
    ("°", 1.0, &["度"]),
    ("l", 1.0, &["liter", "litre", "l", "升"]),
    ("ml", 1.0, &["ml", "毫升"]),
];

/// The unit a text begins with, and its length in bytes.
pub(super) fn leading(text: &str) -> (Unit, usize) {
    let latin = |c: &char| c.is_alphabetic() && (*c as u32) < 0x250;
    let letters: usize = text.chars().take_while(latin).map(char::len_utf8).sum();
    if letters > 0 {
        let unit = of(&text[..letters]);
        return (unit, if unit.is_some() { letters } else { 0 });
    }
    let words =
        UNITS.iter().flat_map(|&(unit, factor, words)| words.iter().map(move |word| (unit, factor, *word)));
    let best = words
        .filter(|(_, _, word)| !word.as_bytes()[0].is_ascii_lowercase() && text.starts_with(word))
        .max_by_key(|(_, _, word)| word.len());
    best.map_or((None, 0), |(unit, factor, word)| (Some((unit, factor)), word.len()))
}

/// The unit a word or sign means, also in the plural.
pub(super) fn of(word: &str) -> Unit {
    let word = word.to_lowercase();
    let find = |word: &str| {
        UNITS.iter().find(|(_, _, names)| names.contains(&word)).map(|&(unit, factor, _)| (unit, factor))
    };
    let singular = |end: &&str| word.strip_suffix(*end).filter(|stem| stem.len() >= 3).and_then(find);
    find(&word).or_else(|| ["s", "n", "en", "e"].iter().find_map(|end| singular(&end)))
}

/// Whether it is a unit of time in which even "one" is a statement: an hour, a month, but not "a second", "a day".
pub(super) fn is_span(unit: Unit) -> bool {
    unit.is_some_and(|(unit, factor)| unit == "s" && factor > 1.0 || unit == "month" || unit == "year")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_known_in_the_plural_and_by_its_longest_word() {
        assert_eq!(of("Minutes"), Some(("s", 60.0)));
        assert_eq!(of("Stunden"), Some(("s", 3600.0)));
        assert_eq!(of("should"), None);
        assert_eq!(leading("分钟以后"), (Some(("s", 60.0)), "分钟".len()));
        assert_eq!(leading("%"), (Some(("%", 1.0)), 1));
        assert_eq!(leading("cats"), (None, 0));
    }
}
