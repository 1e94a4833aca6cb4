//! What each provider's own words mean, in bodies of the shapes they have.

mod anthropic;
mod azure;
mod bedrock;
mod deepseek;
mod google;
mod groq;
mod local;
mod mistral;
mod openai;
mod openrouter;
mod qwen;
mod together;
