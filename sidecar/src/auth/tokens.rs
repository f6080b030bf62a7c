//! Tokens in a file: a line per token, with the name of its client.

use std::io::{self, Write as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// 256 bits, as many as the tokens that the sidecar makes.
const TOKEN_BYTES: usize = 32;

/// What stands before the SHA-256 of a token, in the place of the token.
const DIGEST: &str = "sha256";

/// Longest name, bytes.
const MAX_NAME: usize = 64;

/// Hexadecimal digits of its SHA-256 by which a token without a name is called. They tell tokens apart, and are of no
/// use to who wants to find one that is random.
const HANDLE_DIGITS: usize = 8;

/// A token that opens, and what its client is called.
pub(super) struct Token {
    pub(super) name: String,
    digest: [u8; 32],
    /// Fewer characters than a random token needs; not known of one that is there by its digest.
    pub(super) is_short: bool,
}

/// The tokens of a file's text, one per line: `name:token` or a bare token; `sha256:HEX` may stand for a token. Blank lines
/// and `#` comments are skipped. A name may be there more than once: the old token and the new one of one client.
///
/// # Errors
/// Which line is wrong and why, never what it holds.
pub(super) fn parse(text: &str) -> Result<Vec<Token>, String> {
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let tokens: Result<Vec<Token>, String> =
        lines.map(|(at, line)| token(line).map_err(|why| format!("line {}: {why}", at + 1))).collect();
    match tokens {
        Ok(tokens) if tokens.is_empty() => Err(String::from("it holds no token")),
        tokens => tokens,
    }
}

fn token(line: &str) -> Result<Token, &'static str> {
    let (name, secret) = match line.split_once(':') {
        Some((DIGEST, _)) | None => (None, line),
        Some((name, secret)) => (Some(name.trim()), secret.trim()),
    };
    let (digest, is_short) = match secret.strip_prefix(DIGEST).and_then(|rest| rest.strip_prefix(':')) {
        Some(hex) => (digest_of_hex(hex).ok_or("sha256: must be followed by 64 hexadecimal digits")?, false),
        None if secret.is_empty() || !secret.bytes().all(|b| b.is_ascii_graphic()) => {
            return Err("the token is empty, or holds a space or a character that is not ASCII");
        }
        None => (Sha256::digest(secret).into(), secret.len() < TOKEN_BYTES),
    };
    let name = match name {
        Some(name) if name.is_empty() || name.len() > MAX_NAME || name.contains(char::is_control) => {
            return Err("the name before the colon must have 1 to 64 bytes, and no control characters");
        }
        Some(name) => name.to_owned(),
        None => format!("token-{}", &hex(&digest)[..HANDLE_DIGITS]),
    };
    Ok(Token { name, digest, is_short })
}

/// The name of the client that shows one of these. Looks at every token, whichever matches, and compares digests: the
/// time taken tells nothing about a token, its length included.
pub(super) fn find(tokens: Vec<Token>, shown: &[u8]) -> Option<String> {
    let shown: [u8; 32] = Sha256::digest(shown).into();
    let mut found = None;
    for token in tokens {
        if bool::from(token.digest.ct_eq(&shown)) {
            found = Some(token.name);
        }
    }
    found
}

/// Makes a token, and replaces the file, so that whoever reads it sees the old token or the new one.
pub(super) fn generate(file: &Path) -> io::Result<()> {
    let mut secret = [0; TOKEN_BYTES];
    getrandom::fill(&mut secret).map_err(io::Error::other)?;
    let dir = file.parent().unwrap_or(Path::new("/"));
    // tempfile makes it 0600.
    let mut temp = tempfile::NamedTempFile::new_in(dir)?;
    writeln!(temp, "{}", hex(&secret))?;
    temp.persist(file)?;
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn digest_of_hex(hex: &str) -> Option<[u8; 32]> {
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut digest = [0; 32];
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opens(text: &str, shown: &str) -> Option<String> {
        find(parse(text).expect(text), shown.as_bytes())
    }

    #[test]
    fn names_and_tokens() {
        let text = "# comment\n\n a:secret \nbare\r\nb: x:y\na:another\n";
        for (shown, name) in [("secret", "a"), ("another", "a"), ("x:y", "b")] {
            assert_eq!(opens(text, shown).as_deref(), Some(name));
        }
        for wrong in ["", "a", "a:secret", "comment", "y", "secret2", "secre"] {
            assert_eq!(opens(text, wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_token_without_a_name_is_called_the_same_wherever_it_stands() {
        let name = opens("bare", "bare").expect("it opens");
        assert!(name.starts_with("token-") && name.len() == "token-".len() + HANDLE_DIGITS, "{name}");
        assert_eq!(opens("first\n# old\nbare\n", "bare"), Some(name.clone()));
        assert_ne!(opens("first\nbare\n", "first"), Some(name));
    }

    #[test]
    fn a_digest_stands_for_its_token() {
        let digest = hex(&Sha256::digest("bare"));
        for text in [format!("sha256:{digest}"), format!("sha256:{}", digest.to_uppercase())] {
            assert_eq!(
                opens(&text, "bare"),
                opens("bare", "bare"),
                "the name is the token's, however it is written"
            );
            assert_eq!(opens(&text, &text), None, "the digest itself opens nothing");
            assert_eq!(opens(&text, &digest), None);
            assert_eq!(opens(&format!("ci:{text}"), "bare").as_deref(), Some("ci"));
        }
    }

    #[test]
    fn what_is_wrong_is_told_by_its_line_and_not_by_its_content() {
        for (bad, line) in [
            ("a:", "line 1"),
            ("\n# x\ntwo words", "line 3"),
            ("name:tökén", "line 1"),
            (":hush", "line 1"),
            ("sha256:hush", "line 1"),
            (&format!("a:sha256:{}", "0".repeat(63)), "line 1"),
            (&format!("{}:hush", "n".repeat(65)), "line 1"),
        ] {
            let why = parse(bad).err().expect(bad);
            assert!(why.starts_with(line) && !why.contains("hush"), "{bad:?}: {why}");
        }
        for empty in ["", "# only"] {
            assert!(parse(empty).is_err());
        }
    }
}
