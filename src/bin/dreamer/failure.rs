//! What a command can end with besides success, and how it is said: one line on stderr and an exit code.

use std::error::Error as _;
use std::io;

use dreamer::error::Error;

/// Why a command stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Dreamer could not do it.
    Dreamer(Error),
    /// It did it, and nobody reads the answer any more: not a failure.
    NobodyReads,
    /// The answer could not be written.
    Output(io::Error),
    /// What was to be read on stdin could not be.
    Input(io::Error),
    /// No memory, or more than one, has the id that was given.
    Memory(String),
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Dreamer(error.into())
    }
}

impl Failure {
    /// Output that went wrong; a closed pipe is the reader's choice.
    pub(crate) fn of_output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::NobodyReads } else { Self::Output(error) }
    }

    /// Input that went wrong.
    pub(crate) fn of_input(error: io::Error) -> Self {
        Self::Input(error)
    }

    /// The exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Dreamer(error) => error.exit_code(),
            Self::NobodyReads => 0,
            Self::Output(_) | Self::Input(_) | Self::Memory(_) => 1,
        }
    }

    /// What the operator reads; none when there is nothing to say.
    pub(crate) fn told(&self) -> Option<String> {
        match self {
            Self::Dreamer(error) => {
                let mut told = format!("could not {error}");
                let mut source = error.source();
                while let Some(cause) = source {
                    told = format!("{told}: {cause}");
                    source = cause.source();
                }
                Some(told)
            }
            Self::NobodyReads => None,
            Self::Output(error) => Some(format!("could not write the answer: {error}")),
            Self::Input(error) => Some(format!("could not read the lines of stdin: {error}")),
            Self::Memory(told) => Some(told.clone()),
        }
    }
}

/// Writes to stdout at once.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    use io::Write;
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::of_output)
}
