//! `series`, `labels` and `label/NAME/values`: which series there are.

use std::collections::BTreeSet;

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use serde_json::{Map, Value, json};
use tombolo_series::promql;
use tombolo_series::{Labels, Matcher, Querier, Span};

use super::form::Form;
use super::query::querier;
use super::refusal::{Refusal, json as written};
use super::{Asker, Service};

pub(super) async fn series(
    State(service): State<Service>,
    Extension(asker): Extension<Asker>,
    form: Form,
) -> Result<Response, Refusal> {
    let wanted = Wanted::read(&form)?;
    if wanted.selectors.is_empty() {
        return Err(Refusal::bad_data("no match[] parameter provided"));
    }
    let found = wanted.found(&service, &asker).await?;
    let maps = found.iter().map(|labels| {
        let pairs = labels.iter().map(|(name, value)| (name.to_owned(), value.into()));
        Value::Object(pairs.collect::<Map<_, _>>())
    });
    Ok(list(maps.collect(), wanted.limit))
}

pub(super) async fn labels(
    State(service): State<Service>,
    Extension(asker): Extension<Asker>,
    form: Form,
) -> Result<Response, Refusal> {
    let wanted = Wanted::read(&form)?;
    let found = wanted.found(&service, &asker).await?;
    let names: BTreeSet<&str> = found.iter().flat_map(Labels::iter).map(|(name, _)| name).collect();
    Ok(list(names.into_iter().map(Value::from).collect(), wanted.limit))
}

pub(super) async fn values(
    State(service): State<Service>,
    Extension(asker): Extension<Asker>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let wanted = Wanted::read(&Form::of_query(query.as_deref()))?;
    let found = wanted.found(&service, &asker).await?;
    let name = unescaped(&name);
    let values: BTreeSet<&str> =
        found.iter().map(|labels| labels.get(&name)).filter(|value| !value.is_empty()).collect();
    Ok(list(values.into_iter().map(Value::from).collect(), wanted.limit))
}

/// `U__a_2e_b` is how a name with other characters than usual is written in a path: `a.b`.
fn unescaped(name: &str) -> String {
    let Some(rest) = name.strip_prefix("U__") else { return name.to_owned() };
    let mut out = String::new();
    let mut rest = rest;
    while let Some((before, after)) = rest.split_once('_') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('_') {
            out.push('_');
            rest = after;
            continue;
        }
        let code = after.split_once('_').and_then(|(code, after)| {
            Some((char::from_u32(u32::from_str_radix(code, 16).ok()?)?, after))
        });
        let Some((character, after)) = code else { return name.to_owned() };
        out.push(character);
        rest = after;
    }
    out + rest
}

fn list(mut all: Vec<Value>, limit: usize) -> Response {
    let mut answer = json!({"status": "success"});
    if all.len() > limit {
        all.truncate(limit);
        answer["warnings"] = json!(["results truncated due to limit"]);
    }
    answer["data"] = Value::Array(all);
    written(answer.to_string())
}

/// Which series, of when, and how many.
struct Wanted {
    /// Any of these; all series if there are none.
    selectors: Vec<Vec<Matcher>>,
    span: Span,
    limit: usize,
}

impl Wanted {
    fn read(form: &Form) -> Result<Self, Refusal> {
        let from_ms = form.time("start")?.unwrap_or(i64::MIN);
        let to_ms = form.time("end")?.unwrap_or(i64::MAX);
        let limit = form.limit("limit")?;
        if to_ms < from_ms {
            return Err(Refusal::parameter("end", "end timestamp must not be before start time"));
        }
        let mut selectors = Vec::new();
        for text in form.all("match[]") {
            let matchers = promql::parse_selector(text);
            let matchers = matchers.map_err(|error| Refusal::parameter("match[]", error))?;
            if matchers.iter().all(|matcher| matcher.matches("")) {
                let problem = "match[] must contain at least one non-empty matcher";
                return Err(Refusal::parameter("match[]", problem));
            }
            selectors.push(matchers);
        }
        Ok(Self { selectors, span: Span::new(from_ms, to_ms), limit })
    }

    async fn found(&self, service: &Service, asker: &Asker) -> Result<Vec<Labels>, Refusal> {
        let Some(querier) = querier(service, asker).await? else { return Ok(Vec::new()) };
        let turn = service.turn().await?;
        let (selectors, span) = (self.selectors.clone(), self.span);
        let looking = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            of(&*querier, &selectors, span)
        });
        looking.await.map_err(|_| Refusal::internal("the search for series stumbled"))
    }
}

fn of(querier: &dyn Querier, selectors: &[Vec<Matcher>], span: Span) -> Vec<Labels> {
    match selectors {
        [] => querier.select_labels(&[], span),
        [one] => querier.select_labels(one, span),
        several => {
            let all = several.iter().flat_map(|one| querier.select_labels(one, span));
            all.collect::<BTreeSet<Labels>>().into_iter().collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::unescaped;

    #[test]
    fn escaped_names_are_read() {
        assert_eq!(unescaped("job"), "job");
        assert_eq!(unescaped("U__a_2e_b__c"), "a.b_c");
        assert_eq!(unescaped("U__a_zz_"), "U__a_zz_");
    }
}
