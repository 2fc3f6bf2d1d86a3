//! A language model that answers from a list: for tests, and for recorded exchanges.
//! It spends no budget and reaches no network.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use super::{LanguageModel, Prompt, ProviderError, Reply};

type Answer = Result<String, ProviderError>;
type Rule = Box<dyn Fn(&Prompt) -> Option<Answer> + Send + Sync>;

/// Answers prompts by rules, then from a queue, and keeps the prompts it saw.
#[derive(Default)]
pub struct Replay {
    rules: Vec<Rule>,
    queue: Mutex<VecDeque<Answer>>,
    seen: Mutex<Vec<Prompt>>,
}

impl Replay {
    /// Without any answer yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers in this order, whatever is asked.
    pub fn in_order<T: Into<String>>(replies: impl IntoIterator<Item = T>) -> Self {
        replies.into_iter().fold(Self::new(), |replay, reply| replay.then(Ok(reply.into())))
    }

    /// Appends an answer, or a failure, to the queue.
    #[must_use]
    pub fn then(self, answer: Answer) -> Self {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(answer);
        self
    }

    /// Answers with `reply` each time a prompt satisfies `asks`. Rules come before the queue, the first that fits
    /// answers.
    #[must_use]
    pub fn when(
        self,
        asks: impl Fn(&Prompt) -> bool + Send + Sync + 'static,
        reply: impl Into<String>,
    ) -> Self {
        let reply = reply.into();
        self.by(move |prompt| asks(prompt).then(|| Ok(reply.clone())))
    }

    /// Answers by a rule of one's own; `None` passes the prompt on.
    #[must_use]
    pub fn by(mut self, rule: impl Fn(&Prompt) -> Option<Answer> + Send + Sync + 'static) -> Self {
        self.rules.push(Box::new(rule));
        self
    }

    /// The prompts so far, oldest first.
    pub fn prompts(&self) -> Vec<Prompt> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl LanguageModel for Replay {
    fn model(&self) -> &str {
        "replay"
    }

    async fn complete(&self, prompt: &Prompt) -> Result<Reply, ProviderError> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(prompt.clone());
        let queued = || self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let answer = self.rules.iter().find_map(|rule| rule(prompt)).or_else(queued);
        let text = answer.unwrap_or_else(|| {
            let detail = format!("nothing is recorded for this {} prompt", prompt.schema_name);
            Err(ProviderError::Malformed { model: self.model().to_owned(), detail })
        })?;
        Ok(Reply { text, input_tokens: 0, output_tokens: 0 })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::fixtures::prompt;
    use super::*;

    #[tokio::test]
    async fn rules_answer_before_the_queue_and_the_queue_ends() {
        let cut_off = ProviderError::CutOff { model: "replay".into(), max_tokens: 9 };
        let replay = Replay::in_order(["first"])
            .then(Err(cut_off))
            .when(|prompt| prompt.user.as_str().contains("cats"), "about cats");
        let ask = async |text: &str| replay.complete(&prompt(text)).await.map(|reply| reply.text);
        assert_eq!(ask("cats?").await.unwrap(), "about cats");
        assert_eq!(ask("dogs?").await.unwrap(), "first");
        assert!(matches!(ask("birds?").await, Err(ProviderError::CutOff { max_tokens: 9, .. })));
        assert!(matches!(ask("fish?").await, Err(ProviderError::Malformed { .. })));
        assert_eq!(ask("cats!").await.unwrap(), "about cats");
        let seen: Vec<String> = replay.prompts().iter().map(|p| p.user.as_str().to_owned()).collect();
        assert_eq!(seen, ["cats?", "dogs?", "birds?", "fish?", "cats!"]);
    }
}
