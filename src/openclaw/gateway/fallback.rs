//! The gateway's WebSocket, and its own program from the moment at which it refuses a client without a device: gateways
//! that want every client paired say so at the log-in, older ones let it in and then grant it nothing
//! (`tests/fixtures/gateway/ws-2026.4.15.txt`). Any other failure is the WebSocket's own.

use std::time::Duration;

use serde_json::Value;

use super::program::Program;
use super::websocket::WebSocket;
use super::{Gateway, GatewayError};
use crate::openclaw::config::Endpoint;

/// The WebSocket while it serves, then the program.
pub struct WithFallback {
    /// None where the log-in was refused already.
    socket: Option<WebSocket>,
    program: Program,
    asks: Asks,
}

/// Whom the next call goes to.
enum Asks {
    /// The WebSocket, and the program once that refuses.
    Socket,
    /// The program, because of this refusal.
    ProgramFor(GatewayError),
    /// The program, which has answered.
    Program,
    /// The WebSocket alone: the program is not there.
    SocketOnly,
}

impl WithFallback {
    /// Connects and logs in. `patience` is how long any one answer may take.
    ///
    /// # Errors
    /// When nothing listens, it is no gateway, or it refuses for a reason that its program would not mend.
    pub async fn open(
        endpoint: &Endpoint,
        program: Program,
        patience: Duration,
    ) -> Result<Self, GatewayError> {
        match WebSocket::open(endpoint, patience).await {
            Ok(socket) => Ok(Self { socket: Some(socket), program, asks: Asks::Socket }),
            Err(error) if error.is_for_want_of_a_device() => {
                let asks = turn_to(&program, error);
                Ok(Self { socket: None, program, asks })
            }
            Err(error) => Err(error),
        }
    }
}

fn turn_to(program: &Program, refusal: GatewayError) -> Asks {
    tracing::warn!("could not {refusal}; asking with the gateway's program {} instead", program.program);
    Asks::ProgramFor(refusal)
}

#[async_trait::async_trait]
impl Gateway for WithFallback {
    async fn call(&mut self, method: &'static str, params: Value) -> Result<Value, GatewayError> {
        if let (Asks::Socket | Asks::SocketOnly, Some(socket)) = (&self.asks, &mut self.socket) {
            match (socket.call(method, params.clone()).await, &self.asks) {
                (Err(error), Asks::Socket) if error.is_for_want_of_a_device() => {
                    self.asks = turn_to(&self.program, error);
                }
                (answer, _) => return answer,
            }
        }
        let answer = self.program.call(method, params).await;
        match (answer, std::mem::replace(&mut self.asks, Asks::Program)) {
            // Without the program the refusal is what the operator must see to.
            (Err(absent @ GatewayError::NoProgram { .. }), Asks::ProgramFor(refusal)) => {
                tracing::warn!("could not {absent}");
                self.asks = Asks::SocketOnly;
                Err(refusal)
            }
            (answer, _) => answer,
        }
    }

    fn way(&self) -> &'static str {
        match self.asks {
            Asks::Socket | Asks::SocketOnly => "ws",
            Asks::ProgramFor(_) | Asks::Program => self.program.way(),
        }
    }
}
