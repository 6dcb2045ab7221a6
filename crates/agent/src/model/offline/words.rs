//! Words of a prompt: where they end, what is quoted, and how a prompt falls into steps.

/// A word with the text from its start on, so that the rest of a sentence can be taken as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// Without its quotes.
    pub(super) text: &'a str,
    pub(super) quoted: bool,
    /// Where it begins and ends in the sentence, quotes included.
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Word<'_> {
    /// Whether it is this word, whatever its case, and not a quoted text.
    pub(super) fn is(&self, word: &str) -> bool {
        !self.quoted && self.text.eq_ignore_ascii_case(word)
    }

    pub(super) fn is_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(word))
    }
}

const QUOTES: [(char, char); 5] = [('"', '"'), ('\'', '\''), ('`', '`'), ('“', '”'), ('‘', '’')];

/// The words of a sentence. A quote counts where it begins a word and is closed.
pub(super) fn words(sentence: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(step) = sentence[at..].find(|c: char| !c.is_whitespace()) {
        let start = at + step;
        let rest = &sentence[start..];
        let (text, quoted, n_bytes) = match quoted(rest) {
            Some((text, n_bytes)) => (text, true, n_bytes),
            None => {
                let n_bytes = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (bare(&rest[..n_bytes]), false, n_bytes)
            }
        };
        words.push(Word {
            text,
            quoted,
            start,
            end: start + n_bytes,
        });
        at = start + n_bytes;
    }
    words
}

/// A quoted text at the start, and the bytes of it up to the next blank; marks of a sentence may
/// stand between.
fn quoted(rest: &str) -> Option<(&str, usize)> {
    let (open, close) = QUOTES
        .into_iter()
        .find(|(open, _)| rest.starts_with(*open))?;
    let inner = &rest[open.len_utf8()..];
    let mut from = 0;
    while let Some(n) = inner[from..].find(close) {
        let end = from + n;
        let after = &inner[end + close.len_utf8()..];
        let n_marks = after.len()
            - after
                .trim_start_matches([',', '.', ':', ';', '?', '!'])
                .len();
        if after[n_marks..]
            .chars()
            .next()
            .is_none_or(char::is_whitespace)
        {
            let n_bytes = open.len_utf8() + end + close.len_utf8() + n_marks;
            return Some((&inner[..end], n_bytes));
        }
        from = end + close.len_utf8();
    }
    None
}

/// A word without the marks of a sentence behind it; `.` and `..` are names of folders.
fn bare(word: &str) -> &str {
    let bare = word.trim_end_matches([',', ':', ';', '?', '!']);
    match bare.strip_suffix('.') {
        Some(before)
            if before
                .chars()
                .next_back()
                .is_some_and(|c| c != '.' && c != '/') =>
        {
            before
        }
        Some(_) => bare,
        None if bare.is_empty() => word,
        None => bare,
    }
}

/// Cuts a prompt at every `then` that is not quoted.
pub(super) fn sentences(prompt: &str) -> Vec<&str> {
    let words = words(prompt);
    let (mut sentences, mut start) = (Vec::new(), 0);
    for (n, word) in words.iter().enumerate() {
        if !word.is("then") {
            continue;
        }
        let before = n.checked_sub(1).and_then(|n| words.get(n));
        let end = match before {
            Some(and) if and.is("and") => and.start,
            Some(_) | None => word.start,
        };
        if let Some(sentence) = prompt.get(start..end) {
            sentences.push(sentence);
        }
        start = word.end;
    }
    sentences.push(&prompt[start..]);
    let trimmed = sentences
        .into_iter()
        .map(|sentence| sentence.trim().trim_end_matches(','));
    trimmed.filter(|sentence| !sentence.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(sentence: &str) -> Vec<(&str, bool)> {
        words(sentence)
            .into_iter()
            .map(|word| (word.text, word.quoted))
            .collect()
    }

    #[test]
    fn words_lose_their_quotes_and_the_marks_of_the_sentence() {
        assert_eq!(
            texts("read 'my file.txt', a.txt. `x y`? don't . .. ./a/ what's"),
            [
                ("read", false),
                ("my file.txt", true),
                ("a.txt", false),
                ("x y", true),
                ("don't", false),
                (".", false),
                ("..", false),
                ("./a/", false),
                ("what's", false),
            ]
        );
        assert_eq!(
            texts("say 'it's fine' \"open"),
            [("say", false), ("it's fine", true), ("\"open", false),]
        );
        assert_eq!(texts("“é 😀”!"), [("é 😀", true)]);
    }

    #[test]
    fn then_parts_a_prompt_where_it_is_not_quoted() {
        assert_eq!(
            sentences(
                "list files, then read a.txt and then run `if true; then echo x; fi`. Then help"
            ),
            [
                "list files",
                "read a.txt",
                "run `if true; then echo x; fi`.",
                "help"
            ]
        );
        assert_eq!(sentences("then then"), Vec::<&str>::new());
    }
}
