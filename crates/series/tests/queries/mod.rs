//! The queries of the comparison: some of every function, operator, matching and modifier, some by chance,
//! some by hand, and some that are wrong.

use tombolo_series::promql::Query;

/// When the samples begin.
pub(crate) const BASE_MS: i64 = 1_700_000_000_000;

pub(crate) struct Wanted {
    pub(crate) text: String,
    pub(crate) query: Query,
}

/// Numbers that look random and are always the same (xorshift, Marsaglia 2003).
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }
}

pub(crate) fn all() -> Vec<Wanted> {
    let mut texts = systematic();
    texts.extend(BY_HAND.iter().chain(WRONG).map(|text| (*text).to_owned()));
    let mut chance = Chance(7);
    texts.extend((0..250).map(|_| by_chance(&mut chance, 3)));
    let range = |start: i64, minutes: i64, step_s: i64| {
        Query::range(BASE_MS + start * 1000, BASE_MS + (start + minutes * 60) * 1000, step_s * 1000)
    };
    let mut wanted = Vec::new();
    for (number, text) in texts.into_iter().enumerate() {
        let moment = Query::instant(BASE_MS + 1000 * [3600, 2011, 5399, 7300][number % 4]);
        wanted.push(Wanted { text: text.clone(), query: moment });
        let range = [range(600, 60, 60), range(1490, 30, 17), range(-300, 140, 301)][number % 3];
        wanted.push(Wanted { text, query: range });
    }
    wanted
}

/// Functions of what is at one moment.
const OF_INSTANTS: &[&str] = &[
    "abs",
    "absent",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "day_of_month",
    "day_of_week",
    "day_of_year",
    "days_in_month",
    "deg",
    "exp",
    "floor",
    "hour",
    "ln",
    "log10",
    "log2",
    "minute",
    "month",
    "rad",
    "sgn",
    "sin",
    "sinh",
    "sort",
    "sort_desc",
    "sqrt",
    "tan",
    "tanh",
    "timestamp",
    "year",
    "histogram_count",
    "histogram_sum",
    "round",
];

/// Functions of what was over a time.
const OF_RANGES: &[&str] = &[
    "absent_over_time",
    "avg_over_time",
    "changes",
    "count_over_time",
    "delta",
    "deriv",
    "first_over_time",
    "idelta",
    "increase",
    "irate",
    "last_over_time",
    "mad_over_time",
    "max_over_time",
    "min_over_time",
    "present_over_time",
    "rate",
    "resets",
    "stddev_over_time",
    "stdvar_over_time",
    "sum_over_time",
    "ts_of_first_over_time",
    "ts_of_last_over_time",
    "ts_of_max_over_time",
    "ts_of_min_over_time",
];

fn systematic() -> Vec<String> {
    [of_functions(), of_operators(), of_aggregations()].concat()
}

fn of_functions() -> Vec<String> {
    let mut out = Vec::new();
    for function in OF_INSTANTS {
        out.push(format!("{function}(temperature)"));
        out.push(format!("{function}(odd{{job=\"api\"}} / 3)"));
    }
    for function in OF_RANGES {
        out.push(format!("{function}(http_requests_total[5m])"));
        out.push(format!("{function}(temperature{{job=\"db\"}}[90s] offset 3m)"));
        out.push(format!("{function}(odd[3m])"));
        out.push(format!("{function}(temperature[10m:1m])"));
    }
    out
}

fn of_operators() -> Vec<String> {
    let mut out = Vec::new();
    for op in ["+", "-", "*", "/", "%", "^", "atan2", "==", "!=", ">", "<", ">=", "<="] {
        out.push(format!("temperature {op} 20"));
        out.push(format!("7 {op} odd"));
        out.push(format!("temperature {op} odd"));
        out.push(format!("http_requests_total {op} on(job, instance) group_left temperature"));
        out.push(format!("sum by (job) (temperature) {op} ignoring(instance) group_right avg by (job, instance) (odd)"));
        if op.contains(['=', '<', '>']) {
            out.push(format!("temperature {op} bool 20"));
            out.push(format!("temperature {op} bool odd"));
            out.push(format!("3 {op} bool 4"));
        }
    }
    for op in ["and", "or", "unless"] {
        out.push(format!("temperature {op} odd"));
        out.push(format!("temperature {op} on(job) http_requests_total{{code=\"200\"}}"));
        out.push(format!("temperature {op} ignoring(instance) sum by (job) (odd)"));
        out.push(format!("(temperature > 20) {op} (temperature < 25)"));
    }
    out
}

fn of_aggregations() -> Vec<String> {
    let mut out = Vec::new();
    for aggregation in ["sum", "avg", "count", "min", "max", "group", "stddev", "stdvar"] {
        for grouping in ["", "by (job)", "without (code)", "by (job, code)", "by ()", "without ()"]
        {
            out.push(format!("{aggregation} {grouping} (http_requests_total)"));
        }
        out.push(format!("{aggregation}(odd)"));
    }
    for (aggregation, parameter) in [
        ("topk", "2"),
        ("bottomk", "2"),
        ("quantile", "0.3"),
        ("limitk", "2"),
        ("limit_ratio", "0.5"),
        ("limit_ratio", "-0.5"),
        ("topk", "100"),
        ("quantile", "1.2"),
        ("topk", "0"),
    ] {
        out.push(format!("{aggregation}({parameter}, http_requests_total)"));
        out.push(format!("{aggregation} by (job) ({parameter}, temperature)"));
    }
    out
}

const BY_HAND: &[&str] = &[
    "histogram_quantile(0.9, latency_bucket)",
    "histogram_quantile(0.5, sum by (le) (rate(latency_bucket[5m])))",
    "histogram_quantile(0.99, sum by (le, job) (increase(latency_bucket[10m])))",
    "histogram_quantile(1.5, latency_bucket)",
    "histogram_quantile(-1, latency_bucket)",
    "histogram_quantile(NaN, latency_bucket)",
    "histogram_quantile(0.5, latency_bucket{le!=\"+Inf\"})",
    "histogram_quantile(0.5, temperature)",
    "histogram_fraction(0.1, 1, latency_bucket)",
    "histogram_fraction(-Inf, 0.7, rate(latency_bucket[5m]))",
    "histogram_quantiles(latency_bucket, \"q\", 0.1, 0.9)",
    "label_replace(temperature, \"host\", \"$1\", \"instance\", \"(.*):.*\")",
    "label_replace(temperature, \"host\", \"x-${1}y\", \"instance\", \"(.*):(.*)\")",
    "label_replace(temperature, \"job\", \"\", \"job\", \"api\")",
    "label_replace(temperature, \"instance\", \"same\", \"\", \"\")",
    "label_join(temperature, \"both\", \"-\", \"job\", \"instance\")",
    "label_join(temperature, \"job\", \"\", \"none\")",
    "absent(nothing{a=\"b\",c=~\"d\"})",
    "absent(nothing{a=\"b\",a=\"c\"})",
    "absent(sum(nothing))",
    "absent_over_time(nothing{a=\"b\"}[5m])",
    "scalar(temperature)",
    "scalar(sum(temperature))",
    "vector(7)",
    "vector(scalar(sum(temperature)))",
    "time()",
    "pi() * 2",
    "day_of_week()",
    "hour(vector(1e9))",
    "year(vector(-1e9))",
    "predict_linear(temperature[10m], 600)",
    "predict_linear(temperature[10m] offset 5m, 600)",
    "double_exponential_smoothing(temperature[10m], 0.3, 0.6)",
    "quantile_over_time(0.7, temperature[10m])",
    "quantile_over_time(2, temperature[10m])",
    "clamp(temperature, 18, 22)",
    "clamp(temperature, 22, 18)",
    "clamp_min(odd, 3)",
    "clamp_max(odd, 3)",
    "round(temperature, 0.5)",
    "round(temperature, 0)",
    "sort_by_label(temperature, \"instance\")",
    "sort_by_label_desc(http_requests_total, \"code\", \"instance\")",
    "count_values(\"value\", odd)",
    "count_values by (job) (\"value\", odd)",
    "count_values without (instance) (\"value\", round(temperature))",
    "temperature offset 10m",
    "temperature offset -10m",
    "temperature @ 1700003000",
    "temperature @ start()",
    "temperature @ end() offset 5m",
    "rate(http_requests_total[5m] @ end())",
    "rate(http_requests_total[5m] @ 1700003000 offset 1m)",
    "avg_over_time(temperature[10m:2m] @ 1700003000)",
    "max_over_time(rate(http_requests_total[2m])[20m:30s])",
    "max_over_time((sum by (job) (temperature))[20m:])",
    "sum_over_time(time()[1m:5s])",
    "rate(http_requests_total[range()])",
    "rate(http_requests_total[max_of(step(), 2m)])",
    "rate(http_requests_total[2m + 3m])",
    "rate(http_requests_total[2m * 2] offset (1m + 30s))",
    "temperature offset -(1m)",
    "rate(http_requests_total[5m] anchored)",
    "increase(http_requests_total[5m] smoothed)",
    "delta(temperature[5m] smoothed)",
    "changes(odd[5m] anchored)",
    "resets(http_requests_total[10m] anchored)",
    "temperature smoothed",
    "temperature{job=\"api\"} + fill(0) odd{instance=\"a:1\"}",
    "temperature{job=\"api\"} - fill_left(1) odd",
    "temperature * fill_right(2) odd{job=\"db\"}",
    "{__name__=~\"temp.*\"}",
    "{\"temperature\", job=\"api\"}",
    "{__name__=\"odd\",job!~\"a.*\"}",
    "temperature{instance=~\"a:1|c:1\"}",
    "temperature{instance=~\".+\", job!=\"\"}",
    "temperature{none=\"\"}",
    "-temperature",
    "--temperature",
    "-2 ^ 2",
    "2 ^ 3 ^ 2",
    "1 + 2 * 3 - 4 / 5 % 6",
    "-1 - -1",
    "2 ^ -1",
    "0x1f + 017 + 1_000 + 1e3 + .5 + 5m",
    "Inf - inf",
    "NaN",
    "\"a\\n\\u00e9 <&>\"",
    "`raw\\n`",
    "(temperature)",
    "((sum(temperature)))",
    "temperature # a comment",
    "sum(temperature) by (job) / on(job) group_left() sum(odd) by (job)",
    "temperature * on(job, instance) group_left(version) build_info",
    "http_requests_total * on(job, instance) group_left(region) target_info",
    "info(temperature)",
    "info(temperature, {version=~\".+\"})",
    "info(rate(http_requests_total[5m]), {__name__=\"build_info\"})",
    "temperature == temperature",
    "temperature != on(job, instance) odd",
    "1 > bool 2",
    "vector(1) == vector(1)",
    "temperature > bool 20 or odd",
    "max_of(2, 3) + min_of(2, 3)",
    "start() + end() + step() + range()",
    "topk(scalar(count(temperature)) - 3, temperature)",
    "topk(3, http_requests_total) by (job)",
    "quantile by (job) (0.5, http_requests_total)",
    "avg(rate(http_requests_total[5m])) by (job) > 1",
    "sum(rate(http_requests_total{code=\"500\"}[5m])) / sum(rate(http_requests_total[5m]))",
    "100 * (1 - avg by (instance) (rate(http_requests_total{code=\"200\"}[5m])))",
    "sum without (instance, code) (http_requests_total offset 1h)",
    "timestamp(temperature offset 1m)",
    "timestamp(temperature @ 1700003000)",
    "timestamp(abs(temperature))",
    "last_over_time(temperature[10m])",
    "sum(count_over_time(temperature[1m]))",
    "temperature[1m]",
    "temperature[1m] offset 1m",
    "temperature[2m:30s]",
    "rate(temperature[1ms])",
    "sgn(temperature - 20)",
    "odd == odd",
    "odd / 0",
    "odd % 3",
    "sum(odd) by (job)",
    "min(odd) by (instance)",
    "max by (job) (odd unless temperature > 22)",
    "http_requests_total </ 3",
    "sum_over_time(odd[10m])",
    "stddev(odd)",
    "quantile(0.5, odd)",
    "topk(3, odd)",
    "bottomk(3, odd)",
    "sort(odd)",
    "sort_desc(odd)",
    "sum by (__name__) ({job=\"api\"})",
    "count({__name__!=\"\"})",
    "count by (__name__) ({job=~\".*\", instance=\"a:1\"})",
];

const WRONG: &[&str] = &[
    "",
    "#",
    "sum(",
    "sum)",
    "temperature{",
    "temperature{job}",
    "temperature{job=}",
    "temperature{job=\"a\"",
    "temperature{job=~\"(\"}",
    "{}",
    "{job=\"\"}",
    "{job=~\".*\"}",
    "temperature{__name__=\"odd\"}",
    "temperature[5m",
    "temperature[]",
    "temperature[0s]",
    "temperature[-5m]",
    "temperature[5]m",
    "temperature[5m:",
    "temperature[:5m]",
    "temperature[5m:1m:1s]",
    "temperature[5m] + 1",
    "temperature[5m][5m]",
    "(temperature + 1)[5m]",
    "temperature offset",
    "temperature offset 5m offset 5m",
    "sum(temperature) offset 5m",
    "5 offset 5m",
    "temperature @",
    "temperature @ foo",
    "temperature @ Inf",
    "temperature @ 5 @ 6",
    "rate(temperature)",
    "rate(5)",
    "rate(temperature[5m], 5)",
    "rate()",
    "abs(temperature[5m])",
    "abs(5)",
    "unknown(temperature)",
    "sum(5)",
    "sum(temperature[5m])",
    "sum(temperature, odd)",
    "sum()",
    "topk(temperature)",
    "topk(\"a\", temperature)",
    "count_values(5, temperature)",
    "quantile(temperature, 5)",
    "1 == 2",
    "1 and 2",
    "temperature and 2",
    "temperature + bool odd",
    "temperature + on(job) group_left(job) odd",
    "temperature and on(job) group_left odd",
    "temperature + on(job) 5",
    "temperature + \"a\"",
    "-\"a\"",
    "-temperature[5m]",
    "\"a",
    "\"\\q\"",
    "'a\"",
    "temperature == ~ 5",
    "temperature =~ 5",
    "temperature = 5",
    "temperature !~ 5",
    "5m5y",
    "1h1h",
    "1.5.5",
    "1e",
    "0x",
    "1__0",
    "temperature $ odd",
    "temperature ; odd",
    "label_replace(temperature, \"a\", \"b\", \"c\")",
    "label_replace(temperature, \"a\", \"b\", \"c\", \"(\")",
    "label_replace(temperature, \"\", \"b\", \"c\", \"\")",
    "label_join(temperature)",
    "temperature + on(job) odd",
    "temperature + ignoring(instance) group_left odd",
    "http_requests_total + on(job, instance) temperature",
    "temperature + on(instance) group_left odd",
    "rate({job=\"api\"}[5m])",
    "abs({job=\"api\",__name__=~\"temperature|odd\"})",
    "sum by job (temperature)",
    "sum by (job temperature)",
    "sum by (5) (temperature)",
    "sum(temperature) by",
    "temperature smoothed anchored",
    "avg_over_time(temperature[5m] smoothed)",
    "max_over_time(temperature[5m] anchored)",
    "double_exponential_smoothing(temperature[10m], 2, 0.5)",
    "histogram_quantile(latency_bucket, 0.5)",
    "info(temperature, odd)",
    "temperature and fill(0) odd",
    "topk(NaN, temperature)",
    "limit_ratio(NaN, temperature)",
    "sum(temperature,)",
    "temperature[5m:0s]",
    "temperature[2m / 0]",
    "vector(temperature)",
    "scalar(5)",
    "time(5)",
    "on(job)",
    "group_left",
    "temperature{job=\"a\",,}",
    "(temperature",
    "temperature)",
    "1 +",
    "+",
    "* 5",
];

/// Where a query by chance ends.
const LEAVES: &[&str] = &[
    "temperature",
    "odd",
    "http_requests_total",
    "http_requests_total{code=\"200\"}",
    "temperature{job=\"api\"}",
    "odd{instance=~\"a.*\"}",
    "temperature offset 2m",
    "build_info",
];

/// Functions that a query by chance puts around another.
const SHAPERS: &[&str] =
    &["abs", "ceil", "floor", "exp", "sqrt", "ln", "sgn", "timestamp", "absent"];

fn by_chance(chance: &mut Chance, depth: u64) -> String {
    if depth == 0 {
        return chance.pick(LEAVES).to_owned();
    }
    let range = chance.pick(&["30s", "1m", "5m", "7m13s", "20m"]);
    let labels = chance.pick(&["job", "instance", "job, instance", "code", ""]);
    match chance.below(9) {
        0 => {
            let function =
                chance.pick(&["rate", "increase", "delta", "irate", "idelta", "resets", "changes"]);
            let metric = chance.pick(&["temperature", "http_requests_total", "odd"]);
            format!("{function}({metric}[{range}])")
        }
        1 => {
            let function = chance.pick(&["avg", "sum", "min", "max", "count", "stddev", "last"]);
            format!(
                "{function}_over_time({}[{range}:{}])",
                by_chance(chance, depth - 1),
                chance.pick(&["", "1m", "37s"])
            )
        }
        2 | 3 => {
            let aggregation =
                chance.pick(&["sum", "avg", "min", "max", "count", "stddev", "group"]);
            let how = chance.pick(&["by", "without"]);
            format!("{aggregation} {how} ({labels}) ({})", by_chance(chance, depth - 1))
        }
        4 => {
            let op = chance
                .pick(&["+", "-", "*", "/", ">", "<=", "== bool", "> bool", "and", "or", "unless"]);
            let (left, right) = (by_chance(chance, depth - 1), by_chance(chance, depth - 1));
            let on = if labels.is_empty() { String::new() } else { format!("on({labels}) ") };
            format!("sum by (job, instance) ({left}) {op} {on}max by (job, instance) ({right})")
        }
        5 => {
            let op = chance.pick(&["+", "-", "*", "/", "%", "^", ">", "<", "==", "!="]);
            format!(
                "({}) {op} {}",
                by_chance(chance, depth - 1),
                chance.pick(&["2", "0.5", "-1", "0", "Inf"])
            )
        }
        6 => {
            let function = chance.pick(SHAPERS);
            format!("{function}({})", by_chance(chance, depth - 1))
        }
        7 => {
            let aggregation = chance.pick(&["quantile by (job) (0.4,", "quantile(0.9,"]);
            format!("{aggregation} {})", by_chance(chance, depth - 1))
        }
        _ => format!(
            "clamp_max({}, {})",
            by_chance(chance, depth - 1),
            chance.pick(&["3", "20", "1000"])
        ),
    }
}
