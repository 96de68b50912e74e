//! An expression as a tree. Macros are forms of their own, so that the checker and the evaluator each say
//! once what a comprehension is.

/// Where in the text it stands, and what it is.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) at: usize,
    pub(crate) form: Form,
    /// The longest way down. What walks the tree needs so much stack.
    pub(crate) height: usize,
}

impl Expr {
    pub(crate) fn new(at: usize, form: Form) -> Expr {
        let height = 1 + form.children().iter().map(|child| child.height).max().unwrap_or(0);
        Expr { at, form, height }
    }
}

impl Form {
    pub(crate) fn children(&self) -> Vec<&Expr> {
        match self {
            Form::Null
            | Form::Bool(_)
            | Form::Int(_)
            | Form::Uint(_)
            | Form::Double(_)
            | Form::Text(_)
            | Form::Bytes(_)
            | Form::Name(_) => Vec::new(),
            Form::Select(of, ..) | Form::Has(of, _) => vec![of],
            Form::Index(one, other, _) | Form::And(one, other) | Form::Or(one, other) => {
                vec![one, other]
            }
            Form::Call(_, of, arguments) => of.as_deref().into_iter().chain(arguments).collect(),
            Form::If(condition, yes, no) => vec![condition, yes, no],
            Form::List(elements) => elements.iter().map(|(element, _)| element).collect(),
            Form::Map(entries) => entries.iter().flat_map(|(key, value, _)| [key, value]).collect(),
            Form::Loop(found) => {
                let always = [&found.range, &found.body].into_iter();
                always.chain(&found.filter).collect()
            }
            Form::WithValue { of, body, .. } => vec![of, body],
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Form {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    Name(String),
    /// `a.b`, and `a.?b`.
    Select(Box<Expr>, String, Access),
    /// `has(a.b)`.
    Has(Box<Expr>, String),
    /// `a[b]`, and `a[?b]`.
    Index(Box<Expr>, Box<Expr>, Access),
    /// `f(a)`, or `a.f(b)` with the first as what it is called of.
    Call(String, Option<Box<Expr>>, Vec<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    List(Vec<(Expr, Access)>),
    Map(Vec<(Expr, Expr, Access)>),
    Loop(Box<Loop>),
    /// `a.optMap(x, b)`, and `optFlatMap`.
    WithValue {
        of: Box<Expr>,
        name: String,
        body: Box<Expr>,
        flat: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Plain,
    Optional,
}

/// `range.all(name, body)` and its like. With two names the first is the index or the key.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub(crate) kind: LoopKind,
    pub(crate) range: Expr,
    pub(crate) names: Vec<String>,
    pub(crate) filter: Option<Expr>,
    pub(crate) body: Expr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoopKind {
    All,
    Exists,
    ExistsOne,
    /// `map`, and `filter` whose body is the name itself.
    List,
    /// `transformMap`: the keys stay.
    Map,
    /// `transformMapEntry`: each body is a map of one entry.
    Entries,
}
