//! The names of managers: what the query parameter `fieldManager` may say, and what stands in for
//! it when a client that is not an applier sends none.

/// In bytes.
pub const MANAGER_NAME_LENGTH_MAX: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("fieldManager may have {MANAGER_NAME_LENGTH_MAX} bytes at most, not {length}")]
    TooLong { length: usize },
    #[error("fieldManager may have printable characters only")]
    NotPrintable,
}

pub fn check_manager_name(name: &str) -> Result<(), NameError> {
    if name.len() > MANAGER_NAME_LENGTH_MAX {
        return Err(NameError::TooLong { length: name.len() });
    }
    match name.chars().any(char::is_control) {
        true => Err(NameError::NotPrintable),
        false => Ok(()),
    }
}

/// The program at the front of a user agent: `kubectl` of `kubectl/v1.33.1 (linux/amd64) …`.
pub fn manager_of_user_agent(user_agent: &str) -> String {
    let program = user_agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for character in program.chars().filter(|character| !character.is_control()) {
        if name.len() + character.len_utf8() > MANAGER_NAME_LENGTH_MAX {
            break;
        }
        name.push(character);
    }
    match name.is_empty() {
        true => "unknown".to_owned(),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::{MANAGER_NAME_LENGTH_MAX, NameError, check_manager_name, manager_of_user_agent};

    #[test]
    fn takes_the_program_of_a_user_agent() {
        assert_eq!(
            manager_of_user_agent("kubectl/v1.33.1 (linux/amd64) kubernetes/8adc0f0"),
            "kubectl"
        );
        assert_eq!(manager_of_user_agent("curl"), "curl");
        assert_eq!(manager_of_user_agent("a\u{7}b/1"), "ab");
        assert_eq!(manager_of_user_agent("/1.0"), "unknown");
        assert_eq!(manager_of_user_agent(""), "unknown");
    }

    #[test]
    fn cuts_a_long_user_agent_between_characters() {
        let name = manager_of_user_agent(&"€".repeat(100));
        assert_eq!(name, "€".repeat(42));
        assert_eq!(check_manager_name(&name), Ok(()));
    }

    #[test]
    fn refuses_names_that_are_too_long_or_cannot_be_printed() {
        let name = "x".repeat(MANAGER_NAME_LENGTH_MAX);
        assert_eq!(check_manager_name(&name), Ok(()));
        assert_eq!(check_manager_name(&(name + "x")), Err(NameError::TooLong { length: 129 }));
        assert_eq!(check_manager_name("a\nb"), Err(NameError::NotPrintable));
    }
}
