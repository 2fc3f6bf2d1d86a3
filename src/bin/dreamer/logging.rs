//! Logs: to stderr, without timestamps and module names, coloured only on a terminal. The journal has a clock of its own
//! and gets the level as it wants it, so that `journalctl -p warning` finds what matters.

use std::fmt;
use std::io::IsTerminal;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Starts logging. `RUST_LOG` overrides what `verbose` shows.
pub(crate) fn start(verbose: bool) {
    let shown = if verbose { "warn,dreamer=info" } else { "warn" };
    let filter = match std::env::var("RUST_LOG") {
        Ok(set) if !set.trim().is_empty() => EnvFilter::new(set),
        _ => EnvFilter::new(shown),
    };
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && !no_color)
        // A reader of stderr that goes away (`2>&1 | head`) must not end the night: the default complains with a
        // panic.
        .log_internal_errors(false)
        .event_format(Plain { is_journal: is_journal() })
        .init();
}

/// What stands before a line of this syslog level when stderr is the journal, as sd-daemon(3) has it.
pub(crate) fn level_prefix(level: u8) -> String {
    if is_journal() { format!("<{level}>") } else { String::new() }
}

/// Whether stderr is the journal. The variable alone is inherited by programs whose stderr is something else.
#[cfg(unix)]
fn is_journal() -> bool {
    use std::os::unix::fs::MetadataExt;
    let Some(stream) = std::env::var_os("JOURNAL_STREAM") else { return false };
    std::fs::metadata("/proc/self/fd/2")
        .is_ok_and(|stderr| stream == *format!("{}:{}", stderr.dev(), stderr.ino()))
}

#[cfg(not(unix))]
fn is_journal() -> bool {
    false
}

/// The story itself has no label; everything else says what it is.
struct Plain {
    is_journal: bool,
}

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (label, colour, syslog) = match *event.metadata().level() {
            Level::ERROR => ("error: ", "31", 3),
            Level::WARN => ("warning: ", "33", 4),
            Level::INFO => ("", "", 6),
            Level::DEBUG => ("debug: ", "2", 7),
            Level::TRACE => ("trace: ", "2", 7),
        };
        if self.is_journal {
            write!(writer, "<{syslog}>")?;
        }
        if writer.has_ansi_escapes() && !label.is_empty() {
            write!(writer, "\x1b[{colour}m{label}\x1b[0m")?;
        } else {
            writer.write_str(label)?;
        }
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
