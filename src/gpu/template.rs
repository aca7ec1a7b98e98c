//! Kernel texts with compile-time constants and repeated lines.
//!
//! `$NAME` stands for a value. Lines between `$for i FROM TO` and `$end` are repeated with `$i` from FROM to TO - 1: it
//! unrolls loops that drivers would have to unroll to keep arrays in registers. Lines between `$if NAME` and `$else` or
//! `$end` stay if the value is not 0, those between `$else` and `$end` if it is.

use std::fmt::Display;

/// The values to expand a text with.
#[derive(Clone, Debug, Default)]
pub struct Values(Vec<(String, String)>);

impl Values {
    /// Adds a value.
    pub fn with(mut self, name: &str, value: impl Display) -> Values {
        self.0.push((name.to_string(), value.to_string()));
        // `$COLUMN` is a prefix of `$COLUMNS`.
        self.0.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        self
    }

    /// Expands the text with these values.
    ///
    /// # Panics
    /// If a text (all are part of this library) names unknown values, or has blocks without an end.
    pub fn expand(&self, text: &str) -> String {
        let lines: Vec<&str> = text.lines().collect();
        let mut out = String::with_capacity(2 * text.len());
        self.lines(&lines, &mut out);
        out
    }

    fn lines(&self, lines: &[&str], out: &mut String) {
        let mut at = 0;
        while at < lines.len() {
            let words: Vec<&str> = lines[at].split_whitespace().collect();
            match words.as_slice() {
                ["$for", name, from, to] => {
                    let (_, end) = block(lines, at);
                    for i in self.number(from)..self.number(to) {
                        self.clone().with(name, i).lines(&lines[at + 1..end], out);
                    }
                    at = end;
                }
                ["$if", name] => {
                    let (other, end) = block(lines, at);
                    let chosen =
                        if self.number(&format!("${name}")) != 0 { at + 1..other } else { (other + 1).min(end)..end };
                    self.lines(&lines[chosen], out);
                    at = end;
                }
                _ => {
                    out.push_str(&self.line(lines[at]));
                    out.push('\n');
                }
            }
            at += 1;
        }
    }

    fn line(&self, line: &str) -> String {
        let mut line = line.to_string();
        for (name, value) in self.0.iter().filter(|_| line.contains('$')).collect::<Vec<_>>() {
            line = line.replace(&format!("${name}"), value);
        }
        assert!(!line.contains('$'), "no value for {line}");
        line
    }

    fn number(&self, text: &str) -> u32 {
        let value = self.line(text);
        value.parse().unwrap_or_else(|_| panic!("{value} is not a number"))
    }
}

/// The lines of the `$else` (of the end, if there is none) and of the `$end` that belong to the block that starts at
/// this line.
fn block(lines: &[&str], start: usize) -> (usize, usize) {
    let (mut depth, mut other) = (0, None);
    for (at, line) in lines.iter().enumerate().skip(start) {
        match line.split_whitespace().next() {
            Some("$for" | "$if") => depth += 1,
            Some("$else") if depth == 1 => other = Some(at),
            Some("$end") => depth -= 1,
            _ => (),
        }
        if depth == 0 {
            return (other.unwrap_or(at), at);
        }
    }
    panic!("{} has no end", lines[start]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str) -> String {
        Values::default().with("N", 3).with("NAME", "tile").with("YES", 1).with("NO", 0).expand(text)
    }

    #[test]
    fn values_take_the_longest_name() {
        assert_eq!(expand("$NAME[$Nu]"), "tile[3u]\n");
    }

    #[test]
    fn lines_are_repeated() {
        assert_eq!(expand("$for i 1 $N\n$for j 0 2\na$i$j\n$end\n$end"), "a10\na11\na20\na21\n");
    }

    #[test]
    fn lines_stay_by_condition() {
        assert_eq!(expand("$if YES\na\n$else\nb\n$end\nc"), "a\nc\n");
        assert_eq!(expand("$if NO\na\n$else\nb\n$end\n$if NO\nd\n$end"), "b\n");
    }

    #[test]
    #[should_panic(expected = "no value for")]
    fn names_without_a_value_are_refused() {
        expand("$MISSING");
    }

    #[test]
    #[should_panic(expected = "has no end")]
    fn blocks_end() {
        expand("$if YES\na");
    }
}
