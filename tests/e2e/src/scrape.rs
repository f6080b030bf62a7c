//! What a scrape of the metrics tells.

use crate::http;

/// The metrics of an admin or metrics port, by its `ws://HOST:PORT`.
pub async fn metrics(url: &str) -> String {
    let answer = http::get(url, "/metrics", &[]).await;
    assert_eq!(answer.status, 200);
    answer.body
}

/// The sum of all series of a family that bear these labels.
pub fn sum(text: &str, family: &str, labels: &[(&str, &str)]) -> f64 {
    let series = text.lines().filter_map(|line| line.rsplit_once(' '));
    let matching = series.filter(|(series, _)| {
        let (name, all) = series.split_once('{').unwrap_or((series, ""));
        name == family && labels.iter().all(|(label, value)| all.contains(&format!("{label}=\"{value}\"")))
    });
    matching.map(|(_, value)| value.parse::<f64>().unwrap()).sum()
}
