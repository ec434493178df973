//! Scores in a replay file.

use serde::{Deserialize, Serialize};

/// Scores in JSON. JSON has no numbers that are not finite, so these are written as strings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<Score>", into = "Vec<Score>")]
pub struct RecordedScores(pub Vec<f32>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Score {
    Finite(f32),
    Other(OtherScore),
}

#[derive(Serialize, Deserialize)]
enum OtherScore {
    #[serde(rename = "nan")]
    NotANumber,
    #[serde(rename = "inf")]
    Infinity,
    #[serde(rename = "-inf")]
    NegativeInfinity,
}

impl From<RecordedScores> for Vec<Score> {
    fn from(RecordedScores(scores): RecordedScores) -> Self {
        let score = |score: f32| match score {
            f32::INFINITY => Score::Other(OtherScore::Infinity),
            f32::NEG_INFINITY => Score::Other(OtherScore::NegativeInfinity),
            _ if score.is_nan() => Score::Other(OtherScore::NotANumber),
            finite => Score::Finite(finite),
        };
        scores.into_iter().map(score).collect()
    }
}

impl From<Vec<Score>> for RecordedScores {
    fn from(scores: Vec<Score>) -> Self {
        let score = |score| match score {
            Score::Finite(finite) => finite,
            Score::Other(OtherScore::NotANumber) => f32::NAN,
            Score::Other(OtherScore::Infinity) => f32::INFINITY,
            Score::Other(OtherScore::NegativeInfinity) => f32::NEG_INFINITY,
        };
        Self(scores.into_iter().map(score).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_score_survives_its_file() {
        let scores = RecordedScores(vec![
            0.1,
            -1e9,
            f32::MIN_POSITIVE,
            f32::INFINITY,
            f32::NEG_INFINITY,
        ]);
        let text = serde_json::to_string(&scores).unwrap();
        assert!(text.ends_with("\"inf\",\"-inf\"]"), "{text}");
        assert_eq!(
            serde_json::from_str::<RecordedScores>(&text).unwrap(),
            scores
        );
        let odd = serde_json::to_string(&RecordedScores(vec![f32::NAN])).unwrap();
        assert!(serde_json::from_str::<RecordedScores>(&odd).unwrap().0[0].is_nan());
        assert!(serde_json::from_str::<RecordedScores>("[\"1\"]").is_err());
    }
}
