//! Logs: to stderr, without timestamps and module names, coloured only on a terminal.

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
        .event_format(Plain)
        .init();
}

/// The story itself has no label; everything else says what it is.
struct Plain;

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
        let (label, colour) = match *event.metadata().level() {
            Level::ERROR => ("error: ", "31"),
            Level::WARN => ("warning: ", "33"),
            Level::INFO => ("", ""),
            Level::DEBUG => ("debug: ", "2"),
            Level::TRACE => ("trace: ", "2"),
        };
        if writer.has_ansi_escapes() && !label.is_empty() {
            write!(writer, "\x1b[{colour}m{label}\x1b[0m")?;
        } else {
            writer.write_str(label)?;
        }
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
