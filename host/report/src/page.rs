//! Self-contained HTML pages with text, tables, figures, data, and the library that draws figures.
//!
//! The page loads nothing, and its content security policy forbids it to. Plotly.js (MIT licence) is
//! embedded in compressed form and decompressed by the browser.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::figure::Figure;
use crate::pages::model_contents::AnsweredQuestion;

const PLOTLY: &[u8] = include_bytes!("../vendor/plotly-cartesian.min.js.gz");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// Builder of a page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    title: String,
    body: String,
    figures: Vec<Figure>,
}

impl Page {
    /// Creates an empty page.
    #[must_use]
    pub fn new(title: &str) -> Self {
        let mut page = Self {
            title: title.to_owned(),
            ..Self::default()
        };
        let _ = writeln!(page.body, "<h1>{}</h1>", escape(title));
        page
    }

    /// Appends a paragraph.
    pub fn text(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p>{}</p>", escape(text));
    }

    /// Appends a heading.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.body, "<h2>{}</h2>", escape(text));
    }

    /// Appends a list of names and values.
    pub fn summary(&mut self, summary: &[(String, String)]) {
        self.body.push_str("<dl>\n");
        for (name, value) in summary {
            let (name, value) = (escape(name), escape(value));
            let _ = writeln!(self.body, "<dt>{name}</dt><dd>{value}</dd>");
        }
        self.body.push_str("</dl>\n");
    }

    /// Appends a table; the first column is text, the others are numbers.
    pub fn table(&mut self, head: &[String], rows: &[Vec<String>]) {
        let class = if width(head, rows) > NARROW {
            " class=\"wide\""
        } else {
            ""
        };
        let _ = write!(self.body, "<div class=\"table\"><table{class}><thead><tr>");
        for cell in head {
            let _ = write!(self.body, "<th>{}</th>", escape(cell));
        }
        self.body.push_str("</tr></thead><tbody>\n");
        for row in rows {
            self.body.push_str("<tr>");
            // In narrow windows the cells of a row are shown below each other, each with its header.
            for (index, (cell, head)) in row.iter().zip(head).enumerate() {
                let (mut cell, head) = (escape(cell), escape(head));
                if index == 0 {
                    cell = breakable(&cell);
                }
                let _ = write!(self.body, "<td data-head=\"{head}\">{cell}</td>");
            }
            self.body.push_str("</tr>\n");
        }
        self.body.push_str("</tbody></table></div>\n");
    }

    /// Appends questions and their answers, side by side as far as the window is wide enough.
    pub fn questions(&mut self, all: &[AnsweredQuestion]) {
        self.body.push_str("<div class=\"asked\">\n");
        for AnsweredQuestion { title, answers } in all {
            let _ = writeln!(self.body, "<section><h3>{}</h3><ol>", escape(title));
            for answer in answers {
                let (name, score) = (escape(&answer.name), answer.score);
                let class = if answer.is_known_edge {
                    " class=\"holds\""
                } else {
                    ""
                };
                let _ = writeln!(
                    self.body,
                    "<li{class}><span>{name}</span> <span class=\"score\">{score:.3}</span></li>"
                );
            }
            self.body.push_str("</ol></section>\n");
        }
        self.body.push_str("</div>\n");
    }

    /// Appends a figure.
    pub fn figure(&mut self, figure: Figure) {
        let _ = writeln!(
            self.body,
            "<figure><h3>{}</h3><div id=\"{}\" class=\"plot\" style=\"height:{}px\"></div><figcaption>{}</figcaption></figure>",
            escape(&figure.title),
            escape(&figure.id),
            figure.height,
            escape(&figure.caption),
        );
        self.figures.push(figure);
    }

    /// Appends a link that downloads CSV data contained in the page.
    pub fn download(&mut self, name: &str, csv: &str) {
        let _ = writeln!(
            self.body,
            "<p class=\"download\"><a download=\"{}\" href=\"data:text/csv;base64,{}\">Download the data as CSV</a></p>",
            escape(name),
            BASE64.encode(csv),
        );
    }

    /// Appends a link that downloads a value as JSON, if there is one.
    ///
    /// # Errors
    /// When the value cannot be written as JSON.
    pub fn json(
        &mut self,
        name: &str,
        value: &Option<serde_json::Value>,
    ) -> Result<(), serde_json::Error> {
        if let Some(value) = value {
            let text = BASE64.encode(serde_json::to_string_pretty(value)?);
            let _ = writeln!(
                self.body,
                "<p class=\"download\"><a download=\"{0}\" href=\"data:application/json;base64,{text}\">Download {0}</a></p>",
                escape(name),
            );
        }
        Ok(())
    }

    /// Returns the HTML of the page.
    ///
    /// # Errors
    /// When a figure cannot be written as JSON.
    pub fn render(&self) -> Result<String, serde_json::Error> {
        // In a script element, only `<` could end the data.
        let figures = serde_json::to_string(&self.figures)?.replace('<', "\\u003c");
        Ok(format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; \
             style-src 'unsafe-inline'; img-src data: blob:\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"generator\" content=\"pbg-host {version}\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n\
             <noscript><p>The figures of this page are drawn by a script; tables and data need none.</p></noscript>\n\
             <script type=\"application/json\" id=\"figures\">{figures}</script>\n\
             <script type=\"text/plain\" id=\"plotly\">{plotly}</script>\n\
             <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
            version = env!("CARGO_PKG_VERSION"),
            title = escape(&self.title),
            body = self.body,
            plotly = BASE64.encode(PLOTLY),
        ))
    }
}

/// Maximum width in characters of a table in a window of 700 pixels.
const NARROW: usize = 75;

/// Returns the width in characters of a table whose headings wrap at spaces.
fn width(head: &[String], rows: &[Vec<String>]) -> usize {
    let column = |(index, head): (usize, &String)| {
        let words = head.split(' ').map(|word| word.chars().count());
        let cells = rows.iter().filter_map(|row| row.get(index));
        let cells = cells.map(|cell| cell.chars().count());
        words.chain(cells).max().unwrap_or(0) + 2
    };
    head.iter().enumerate().map(column).sum()
}

/// Allows line breaks between the parts of a name.
fn breakable(name: &str) -> String {
    name.replace('_', "_<wbr>")
        .replace(':', ":<wbr>")
        .replace('=', "=<wbr>")
}

/// Escapes text for HTML.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use serde_json::json;
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn nothing_that_is_data_becomes_markup() {
        let evil = "</script><script>alert(1)</script>";
        let mut page = Page::new(evil);
        page.text(evil);
        page.table(&[evil.to_owned()], &[vec![evil.to_owned()]]);
        page.download(evil, evil);
        page.figure(Figure {
            id: "x".to_owned(),
            title: evil.to_owned(),
            caption: evil.to_owned(),
            height: 100,
            data: vec![json!({ "name": evil })],
            layout: json!({}),
        });
        let html = page.render().unwrap();
        assert!(!html.contains("<script>alert"));
        assert_eq!(html.matches("</script>").count(), 3);
    }

    #[test]
    fn cells_of_a_wide_table_say_what_they_are() {
        let head = ["order", "swaps"].map(str::to_owned);
        let row = ["beta:assignment=random", "7"].map(str::to_owned).to_vec();
        let mut page = Page::new("p");
        page.table(&head, std::slice::from_ref(&row));
        assert!(page.body.contains("<table>"), "{}", page.body);
        assert!(page.body.contains("beta:<wbr>assignment=<wbr>random"));
        assert!(page.body.contains("<td data-head=\"swaps\">7</td>"));
        let head = head.iter().cycle().take(12).cloned().collect::<Vec<_>>();
        let row = row.iter().cycle().take(12).cloned().collect();
        page.table(&head, &[row]);
        assert!(page.body.contains("<table class=\"wide\">"));
    }

    #[test]
    fn the_library_is_embedded_and_nothing_is_fetched() {
        let mut library = String::new();
        let mut unpacked = flate2::read::GzDecoder::new(PLOTLY);
        unpacked.read_to_string(&mut library).unwrap();
        assert!(library.contains("Licensed under the MIT license"));
        let sum = Sha256::digest(&library);
        let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(include_str!("../vendor/README.md").contains(&sum), "{sum}");
        let html = Page::new("x").render().unwrap();
        for fetching in ["<link", " src=", "@import", "url("] {
            assert!(!html.contains(fetching), "{fetching}");
        }
    }
}
