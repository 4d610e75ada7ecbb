pub struct Out;
pub enum Segment {}
