//! The smallest module: it answers with a text. Its options are `text` and `type`.

use flyball_module::{Exchange, Module, Open, Setup, Turn};

/// Says the same to everybody.
#[derive(Debug)]
pub(super) struct Hello {
    text: String,
    media_type: String,
}

impl Open for Hello {
    fn open(setup: &mut dyn Setup) -> Result<Hello, String> {
        let mut hello =
            Hello { text: "hello\n".into(), media_type: "text/plain; charset=utf-8".into() };
        for (key, value) in setup.options() {
            match &**key {
                "text" => hello.text = value.clone(),
                "type" => hello.media_type = value.clone(),
                _ => return Err(format!("there is no option {key}: there are text and type")),
            }
        }
        Ok(hello)
    }
}

impl Module for Hello {
    fn answer(&self, exchange: &mut dyn Exchange) -> Turn {
        let answered = exchange
            .add_field(b"Content-Type", self.media_type.as_bytes())
            .and_then(|()| exchange.write(self.text.as_bytes()));
        match answered {
            Ok(()) => Turn::Done,
            Err(_) => Turn::Failed,
        }
    }
}
