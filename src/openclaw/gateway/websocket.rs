//! The gateway's WebSocket: one connection, one log-in, one call after the other. Frames as recorded from openclaw
//! 2026.9.6 (`tests/fixtures/gateway`); other frames that come between are passed over.

use std::io;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Error as WireError, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use super::hello::Hello;
use super::{Gateway, GatewayError, Refusal, quote};
use crate::openclaw::config::{Credential, Endpoint};

/// The oldest and the newest protocol that we speak.
const PROTOCOLS: (u32, u32) = (3, 4);
/// The one id of the gateway's list that stands for programs like this one; another is rejected (W6).
const CLIENT: &str = "gateway-client";

/// A connection that is logged in.
pub struct WebSocket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    endpoint: Endpoint,
    patience: Duration,
    calls: u32,
    hello: Hello,
}

/// A frame, as far as it concerns us.
#[derive(Debug, PartialEq)]
enum Frame {
    /// The gateway wants us to log in.
    Challenge,
    /// The answer to the call with this id.
    Answer { id: String, result: Result<Value, Value> },
    /// Something else.
    Other,
}

impl WebSocket {
    /// Connects and logs in. `patience` is how long any one answer may take.
    ///
    /// # Errors
    /// When nothing listens, it is no gateway, or it does not let us in.
    pub async fn open(endpoint: &Endpoint, patience: Duration) -> Result<Self, GatewayError> {
        let connecting = tokio_tungstenite::connect_async(endpoint.url.as_str());
        let silent = GatewayError::Silent { method: "connect", seconds: patience.as_secs() };
        let (stream, _) = tokio::time::timeout(patience, connecting)
            .await
            .map_err(|_| silent)?
            .map_err(|error| unreachable(endpoint, error))?;
        let mut socket =
            Self { stream, endpoint: endpoint.clone(), patience, calls: 0, hello: Hello::default() };
        socket.hello = Hello::read(&socket.log_in().await?);
        Ok(socket)
    }

    /// What the gateway said of itself and of us when we logged in.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    async fn log_in(&mut self) -> Result<Value, GatewayError> {
        // The gateway speaks first; what is sent before its challenge is not read.
        while self.next("connect").await? != Frame::Challenge {}
        let auth = match &self.endpoint.credential {
            Credential::Token(token) => json!({ "token": token.expose_secret() }),
            Credential::Password(password) => json!({ "password": password.expose_secret() }),
            Credential::Nothing => json!({}),
        };
        let client = json!({
            "id": CLIENT,
            "version": env!("CARGO_PKG_VERSION"),
            "platform": std::env::consts::OS,
            "mode": "backend",
        });
        let params = json!({
            "minProtocol": PROTOCOLS.0,
            "maxProtocol": PROTOCOLS.1,
            "client": client,
            "role": "operator",
            "scopes": ["operator.admin"],
            "caps": [],
            "auth": auth,
        });
        self.call("connect", params).await
    }

    async fn next(&mut self, method: &'static str) -> Result<Frame, GatewayError> {
        let silent = GatewayError::Silent { method, seconds: self.patience.as_secs() };
        let message = tokio::time::timeout(self.patience, self.stream.next()).await.map_err(|_| silent)?;
        let closed = |why: String| GatewayError::Closed { method, why };
        match message {
            Some(Ok(Message::Text(text))) => Ok(read(&text)),
            Some(Ok(Message::Close(Some(close)))) => {
                let said = format!("{} {}", u16::from(close.code), close.reason);
                Err(closed(format!(" ({})", quote(&said, &self.endpoint.credential))))
            }
            Some(Ok(Message::Close(None)) | Err(WireError::ConnectionClosed)) | None => {
                Err(closed(String::new()))
            }
            Some(Ok(_)) => Ok(Frame::Other),
            Some(Err(error)) => {
                Err(closed(format!(" ({})", quote(&error.to_string(), &self.endpoint.credential))))
            }
        }
    }
}

#[async_trait::async_trait]
impl Gateway for WebSocket {
    async fn call(&mut self, method: &'static str, params: Value) -> Result<Value, GatewayError> {
        self.calls += 1;
        let id = self.calls.to_string();
        let frame = json!({ "type": "req", "id": id, "method": method, "params": params });
        let sent = self.stream.send(Message::text(frame.to_string())).await;
        if let Err(error) = sent {
            let why = format!(" ({})", quote(&error.to_string(), &self.endpoint.credential));
            return Err(GatewayError::Closed { method, why });
        }
        let patience = self.patience;
        let answering = async {
            loop {
                if let Frame::Answer { id: answered, result } = self.next(method).await?
                    && answered == id
                {
                    return Ok::<_, GatewayError>(result);
                }
            }
        };
        // Ticks and other events keep coming, so the whole wait is limited and not only that for the next frame.
        let answer = tokio::time::timeout(patience, answering).await;
        let answer = answer.map_err(|_| GatewayError::Silent { method, seconds: patience.as_secs() })?;
        answer?.map_err(|error| {
            let credential = &self.endpoint.credential;
            Refusal::read(&error, credential).into_error(method, credential)
        })
    }

    fn way(&self) -> &'static str {
        "ws"
    }
}

/// What a text frame says.
fn read(text: &str) -> Frame {
    let Ok(frame) = serde_json::from_str::<Value>(text) else { return Frame::Other };
    let field = |key| frame.get(key).and_then(Value::as_str);
    match (field("type"), field("event"), field("id")) {
        (Some("event"), Some("connect.challenge"), _) => Frame::Challenge,
        (Some("res"), _, Some(id)) => {
            let of = |key| frame.get(key).cloned().unwrap_or(Value::Null);
            let ok = frame.get("ok") == Some(&Value::Bool(true));
            Frame::Answer {
                id: id.to_string(),
                result: if ok { Ok(of("payload")) } else { Err(of("error")) },
            }
        }
        _ => Frame::Other,
    }
}

fn unreachable(endpoint: &Endpoint, error: WireError) -> GatewayError {
    let url = endpoint.shown().to_string();
    match error {
        WireError::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            let bind = endpoint.bind.as_ref().map(|bind| format!(" (gateway.bind is {bind})"));
            GatewayError::Refused { url, bind: bind.unwrap_or_default() }
        }
        WireError::Http(response) => {
            let what = format!("it answers HTTP {} instead of a WebSocket", response.status().as_u16());
            GatewayError::NotAGateway { url, what }
        }
        WireError::Protocol(error) => GatewayError::NotAGateway { url, what: error.to_string() },
        WireError::Io(error) => GatewayError::Unreachable { url, source: Box::new(error) },
        error => GatewayError::Unreachable { url, source: Box::new(error) },
    }
}
