//! A small list of places with their names in English, Chinese, Japanese and Korean.
//! It finds places where no rule would and makes 北京 and Beijing one name.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

/// One row a place: its names, longest-known first.
#[rustfmt::skip]
const PLACES: &[&[&str]] = &[
    &["Beijing", "北京", "베이징"],
    &["Shanghai", "上海", "상하이"],
    &["Guangzhou", "广州", "広州", "광저우"],
    &["Shenzhen", "深圳", "선전"],
    &["Hangzhou", "杭州"],
    &["Nanjing", "南京"],
    &["Chengdu", "成都"],
    &["Wuhan", "武汉"],
    &["Chongqing", "重庆"],
    &["Tianjin", "天津"],
    &["Suzhou", "苏州"],
    &["Xiamen", "厦门"],
    &["Qingdao", "青岛"],
    &["Dalian", "大连"],
    &["Changsha", "长沙"],
    &["Kunming", "昆明"],
    &["Guilin", "桂林"],
    &["Lhasa", "拉萨"],
    &["Harbin", "哈尔滨"],
    &["Zhengzhou", "郑州"],
    &["Jinan", "济南"],
    &["Hefei", "合肥"],
    &["Ningbo", "宁波"],
    &["Lijiang", "丽江"],
    &["Zhongguancun", "中关村"],
    &["Taipei", "台北", "타이베이"],
    &["Hong Kong", "香港", "홍콩"],
    &["Macau", "澳门"],
    &["Taiwan", "台湾", "대만"],
    &["Tokyo", "東京", "东京", "도쿄"],
    &["Osaka", "大阪", "오사카"],
    &["Kyoto", "京都", "교토"],
    &["Yokohama", "横浜", "横滨"],
    &["Nagoya", "名古屋"],
    &["Fukuoka", "福岡", "福冈", "후쿠오카"],
    &["Sapporo", "札幌"],
    &["Kobe", "神戸"],
    &["Nara", "奈良"],
    &["Okinawa", "沖縄", "冲绳"],
    &["Hokkaido", "北海道"],
    &["Seoul", "首尔", "ソウル", "서울"],
    &["Busan", "釜山", "プサン", "부산"],
    &["Incheon", "仁川", "인천"],
    &["Daegu", "대구"],
    &["Daejeon", "대전"],
    &["Gwangju", "광주"],
    &["Jeju", "济州", "제주"],
    &["Suwon", "수원"],
    &["Ulsan", "울산"],
    &["Singapore", "新加坡", "シンガポール", "싱가포르"],
    &["Bangkok", "曼谷", "バンコク", "방콕"],
    &["Hanoi", "河内"],
    &["Manila", "马尼拉"],
    &["Jakarta", "雅加达"],
    &["Kuala Lumpur", "吉隆坡"],
    &["Mumbai", "孟买"],
    &["Delhi", "德里"],
    &["Dubai", "迪拜", "ドバイ", "두바이"],
    &["London", "伦敦", "ロンドン", "런던"],
    &["Paris", "巴黎", "パリ", "파리"],
    &["Berlin", "柏林", "ベルリン", "베를린"],
    &["Munich", "München", "慕尼黑", "ミュンヘン", "뮌헨"],
    &["Hamburg", "汉堡市"],
    &["Frankfurt", "法兰克福"],
    &["Vienna", "Wien", "维也纳", "ウィーン"],
    &["Zurich", "Zürich", "苏黎世"],
    &["Geneva", "日内瓦"],
    &["Madrid", "马德里", "マドリード", "마드리드"],
    &["Barcelona", "巴塞罗那", "バルセロナ", "바르셀로나"],
    &["Rome", "罗马", "ローマ"],
    &["Milan", "米兰", "ミラノ"],
    &["Lisbon", "里斯本"],
    &["Amsterdam", "阿姆斯特丹"],
    &["Brussels", "布鲁塞尔"],
    &["Dublin", "都柏林"],
    &["Prague", "布拉格"],
    &["Warsaw", "华沙"],
    &["Moscow", "莫斯科", "モスクワ", "모스크바"],
    &["Stockholm", "斯德哥尔摩"],
    &["Copenhagen", "哥本哈根"],
    &["Helsinki", "赫尔辛基"],
    &["Oslo", "奥斯陆"],
    &["Athens", "雅典"],
    &["Istanbul", "伊斯坦布尔"],
    &["New York", "纽约", "ニューヨーク", "뉴욕"],
    &["Los Angeles", "洛杉矶", "ロサンゼルス", "로스앤젤레스"],
    &["San Francisco", "旧金山", "サンフランシスコ", "샌프란시스코"],
    &["Seattle", "西雅图", "シアトル", "시애틀"],
    &["Chicago", "芝加哥", "シカゴ", "시카고"],
    &["Boston", "波士顿", "ボストン", "보스턴"],
    &["Toronto", "多伦多"],
    &["Vancouver", "温哥华"],
    &["Sydney", "悉尼", "シドニー", "시드니"],
    &["Melbourne", "墨尔本"],
    &["Cairo", "开罗"],
    &["Mexico City", "墨西哥城"],
    &["São Paulo", "圣保罗"],
    &["China", "中国", "중국"],
    &["Japan", "日本", "일본"],
    &["Korea", "韩国", "韓国", "한국"],
    &["America", "USA", "United States", "美国", "アメリカ", "미국"],
    &["England", "英格兰"],
    &["Britain", "United Kingdom", "英国", "イギリス", "영국"],
    &["Germany", "Deutschland", "德国", "ドイツ", "독일"],
    &["France", "法国", "フランス", "프랑스"],
    &["Spain", "España", "西班牙", "スペイン", "스페인"],
    &["Italy", "意大利", "イタリア", "이탈리아"],
    &["Portugal", "葡萄牙", "ポルトガル"],
    &["Russia", "俄罗斯", "ロシア", "러시아"],
    &["Canada", "加拿大", "カナダ", "캐나다"],
    &["Australia", "澳大利亚", "オーストラリア", "호주"],
    &["India", "印度", "インド", "인도"],
    &["Thailand", "泰国", "タイ王国", "태국"],
    &["Vietnam", "越南", "ベトナム", "베트남"],
    &["Brazil", "巴西", "ブラジル", "브라질"],
    &["Switzerland", "瑞士", "スイス", "스위스"],
    &["Netherlands", "荷兰", "オランダ"],
    &["Sichuan", "四川"],
    &["Guangdong", "广东"],
    &["Yunnan", "云南"],
    &["Zhejiang", "浙江"],
    &["Jiangsu", "江苏"],
    &["Tibet", "西藏"],
    &["Hainan", "海南"],
    &["Hunan", "湖南"],
    &["Fujian", "福建"],
];

type Names = &'static [&'static str];

static INDEX: LazyLock<HashMap<String, Names>> = LazyLock::new(|| {
    PLACES.iter().flat_map(|names| names.iter().map(move |name| (name.to_lowercase(), *names))).collect()
});

/// Any place's name that is not in Latin letters.
pub(super) static CJK_PLACE: LazyLock<Regex> = LazyLock::new(|| {
    let names = PLACES.iter().flat_map(|names| names.iter()).filter(|name| !name.starts_with(latin));
    let mut names: Vec<&str> = names.copied().collect();
    // The longer name first: an alternation takes the first that fits.
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    super::compile(&names.join("|"))
});

fn latin(c: char) -> bool {
    (c as u32) < 0x250
}

/// Every name of the place with this name; names are compared without case.
pub(super) fn aliases(name: &str) -> Option<Names> {
    INDEX.get(&name.to_lowercase()).copied()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_known_by_each_of_its_names_and_a_name_by_one_place() {
        assert!(aliases("beijing").unwrap().contains(&"北京"));
        assert!(aliases("nowhere").is_none());
        let mut names: Vec<_> = PLACES.iter().flat_map(|names| names.iter()).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
