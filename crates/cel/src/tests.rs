//! Expressions and what they come to, as Kubernetes documents its libraries and the language its own.

use std::sync::Arc;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;

/// `self` of the tests: the schema that most rules of the documentation are about.
fn self_type() -> Type {
    let field = |name: &str, type_: Type| {
        let escaped = escaped(name).expect("a name that can be written");
        (escaped, Field { name: name.to_owned(), type_ })
    };
    let item = Object {
        fields: [field("name", Type::String), field("port", Type::Int)].into_iter().collect(),
    };
    let fields = [
        field("replicas", Type::Int),
        field("minReplicas", Type::Int),
        field("ratio", Type::Double),
        field("name", Type::String),
        field("namespace", Type::String),
        field("x-dashed", Type::String),
        field("names", Type::list(Type::String)),
        field("items", Type::list(Type::Object(Arc::new(item)))),
        field("labels", Type::map(Type::String, Type::String)),
        field("any", Type::Dyn),
        field("since", Type::Timestamp),
        field("timeout", Type::Duration),
        field("blob", Type::Bytes),
    ];
    Type::Object(Arc::new(Object { fields: fields.into_iter().collect() }))
}

fn object() -> Json {
    json!({
        "replicas": 3, "minReplicas": 1, "ratio": 0.5, "name": "web", "namespace": "shop",
        "x-dashed": "d", "names": ["b", "a", "c"],
        "items": [{"name": "http", "port": 80}, {"name": "https", "port": 443}],
        "labels": {"app": "web", "tier": "front"}, "any": "50%", "since": "2026-01-02T03:04:05Z",
        "timeout": "1h30m", "blob": "aGVsbG8=",
    })
}

fn evaluated(text: &str) -> String {
    let (type_, object) = (self_type(), object());
    let old = Type::optional(type_.clone());
    let program = match Program::compile(text, type_, old) {
        Ok(program) => program,
        Err(CompileError::Wrong(text)) => return text,
        Err(error) => return error.to_string(),
    };
    let mut budget = Budget::new(OBJECT_COST_MAX);
    let subject = Subject { value: &object, old: None };
    match program.evaluate(subject, &mut budget) {
        Ok(Value::Bool(truth)) => truth.to_string(),
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("error: {error}"),
    }
}

/// Every one of these is true.
#[track_caller]
fn holds(rules: &[&str]) {
    let wrong: Vec<String> = rules
        .iter()
        .map(|rule| (rule, evaluated(rule)))
        .filter(|(_, found)| found != "true")
        .map(|(rule, found)| format!("{rule}\n    {found}\n"))
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.concat());
}

#[track_caller]
fn check(text: &str, expect: Expect) {
    expect.assert_eq(&evaluated(text));
}

#[test]
fn fields_and_operators() {
    holds(&[
        "self.replicas >= self.minReplicas",
        "self.replicas + 2 * 3 == 9 && -self.replicas == -3",
        "7 / 2 == 3 && -7 / 2 == -3 && 7 % 4 == 3 && -7 % 4 == -3",
        "7.0 / 2.0 == 3.5 && 1e3 == 1000.0 && 0x10 == 16 && 3u < 4u && 9223372036854775807 > 0",
        "dyn(1) == 1.0 && 1 < 1.5 && dyn(2u) == 2 && 1.5 > 1 && -1 < 0u",
        "self.__namespace__ == 'shop' && self.x__dash__dashed == 'd'",
        "has(self.name) && !has(self.any.missing) || true",
        "self.name == 'web' ? self.replicas == 3 : false",
        "!false && !!true",
        "'a' < 'b' && b'a' < b'b' && false < true",
        "'a' in self.names && 'app' in self.labels && !('z' in self.labels)",
        "self.labels['tier'] == 'front' && self.labels.tier == 'front'",
        "self.items[1].port == 443 && self.items.size() == 2 && size(self.items) == 2",
        "[1, 2] + [3] == [1, 2, 3] && {'a': 1}['a'] == 1 && {1: 'b'}[1] == 'b'",
        "r'\\d' == '\\\\d' && '\\u00e9' == 'é' && \"\"\"a\nb\"\"\" == 'a\\nb' && '\\101' == 'A'",
        "type(1) == int && type('a') == string && type([1]) == list && type(self.any) == string",
        "type(self.any) == int ? dyn(self.any) < 5 : self.any.matches(r'^\\d+%$')",
        "null == null && dyn(1) != null",
        "1 + 1 == 2 // what follows is a comment",
        // One side that decides makes up for an error of the other.
        "true || 1 / 0 == 1",
        "1 / 0 == 1 || true",
        "!(1 / 0 == 1 && false)",
    ]);
}

#[test]
fn comprehensions() {
    holds(&[
        "self.names.all(n, n.size() == 1) && !self.names.all(n, n == 'a')",
        "self.names.exists(n, n == 'c') && self.names.exists_one(n, n == 'c')",
        "self.items.map(i, i.port) == [80, 443]",
        "self.items.map(i, i.port > 100, i.name) == ['https']",
        "self.items.filter(i, i.port > 100).size() == 1",
        "self.labels.all(key, self.labels[key] != '')",
        "self.items.all(i, self.items.exists_one(other, other.name == i.name))",
        "[1, 2].all(i, v, i < v) && {'a': 1}.all(k, v, k == 'a' && v == 1)",
        "[1, 2].transformList(i, v, i * v) == [0, 2]",
        "{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v * 10) == {'b': 20}",
        "['x'].transformMapEntry(i, v, {v: i}) == {'x': 0}",
        "[[1, 2], [3]].map(l, l.map(x, x + 1)) == [[2, 3], [4]]",
        // An error is none if another element decides.
        "[0, 1].exists(x, 1 / x == 1)",
    ]);
}

#[test]
fn texts() {
    holds(&[
        "'hello'.contains('ell') && 'hello'.startsWith('he') && 'hello'.endsWith('lo')",
        "'abc'.matches('^a.c$') && matches('abc', 'b')",
        "'tacocat'.charAt(3) == 'o' && 'tacocat'.charAt(7) == ''",
        "'hello mellow'.indexOf('') == 0 && 'hello mellow'.indexOf('ello') == 1",
        "'hello mellow'.indexOf('jello') == -1 && 'hello mellow'.indexOf('ello', 2) == 7",
        "'hello mellow'.lastIndexOf('ello') == 7 && 'hello mellow'.lastIndexOf('ello', 6) == 1",
        "['x', 'y'].join() == 'xy' && ['x', 'y'].join(' ') == 'x y'",
        "'TacoCat'.lowerAscii() == 'tacocat' && 'TacoCÆt'.upperAscii() == 'TACOCÆT'",
        "'hello hello'.replace('he', 'we') == 'wello wello'",
        "'hello hello'.replace('he', 'we', 1) == 'wello hello'",
        "'hello hello'.replace('', '_') == '_h_e_l_l_o_ _h_e_l_l_o_'",
        "'hello hello'.split(' ') == ['hello', 'hello'] && 'abc'.split('') == ['a', 'b', 'c']",
        "'hello hello hello'.split(' ', 2) == ['hello', 'hello hello'] && 'a'.split(' ', 0) == []",
        "'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco'",
        "'  trim '.trim() == 'trim' && 'abc'.reverse() == 'cba' && size('é') == 1",
        "strings.quote('a\"b') == '\"a\\\\\"b\"'",
        "'%s is %d or %.2f'.format(['x', 1, 2.5]) == 'x is 1 or 2.50'",
        "'%x %X %b %o %e %%'.format([255, 255, 5, 8, 1052.03]) == 'ff FF 101 10 1.052030×10⁰³ %'",
        "'%s %s'.format([[1, 'a'], {'k': true}]) == '[1, a] {k: true}'",
        "'abc 123'.find('[0-9]+') == '123' && 'abc'.find('[0-9]+') == ''",
        "'123 abc 456'.findAll('[0-9]+') == ['123', '456'] && '1 2'.findAll('[0-9]', 1) == ['1']",
        "int('7') == 7 && double('1.5') == 1.5 && string(7) == '7' && uint(3) == 3u && bool('true')",
        "int(3.9) == 3 && string(1.5) == '1.5' && string(b'abc') == 'abc' && bytes('abc') == b'abc'",
        "self.blob == b'hello' && self.blob.size() == 5",
    ]);
}

#[test]
fn lists_and_sets() {
    holds(&[
        "[1, 2, 3].isSorted() && !self.names.isSorted() && [1.0].isSorted()",
        "[1, 2, 3].sum() == 6 && [1.5, 2.0].sum() == 3.5 && self.items.map(i, i.port).sum() == 523",
        "[3, 1, 2].min() == 1 && [3, 1, 2].max() == 3 && self.names.max() == 'c'",
        "self.names.indexOf('a') == 1 && [1, 2, 2].lastIndexOf(2) == 2 && [1].indexOf(5) == -1",
        "sets.contains([1, 2, 3], [2, 1]) && !sets.contains([1], [2])",
        "sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1, 2], [2]) && !sets.intersects([1], [])",
    ]);
}

#[test]
fn kubernetes_libraries() {
    holds(&[
        "quantity('1Gi').isGreaterThan(quantity('500Mi')) && quantity('1k').compareTo(quantity('1000')) == 0",
        "isQuantity('1.3Gi') && !isQuantity('1,3') && !isQuantity('10Mo') && isQuantity('+0.1e3')",
        "quantity('50k').add(20).compareTo(quantity('50020')) == 0 && quantity('50k').sub(quantity('1k')).asInteger() == 49000",
        "quantity('-1').sign() == -1 && quantity('500m').asApproximateFloat() == 0.5 && !quantity('500m').isInteger()",
        "url('https://example.com:80/path?k=a&k=b').getHost() == 'example.com:80'",
        "url('https://[::1]:80/a%20b').getHostname() == '::1' && url('https://[::1]:80/').getPort() == '80'",
        "url('https://a/path with space'.replace(' ', '%20')).getEscapedPath() == '/path%20with%20space'",
        "url('https://a/?k1=a&k2=b&k1=c').getQuery() == {'k1': ['a', 'c'], 'k2': ['b']}",
        "isURL('https://a') && isURL('/absolute') && !isURL('../relative') && url('/p').getScheme() == ''",
        "ip('127.0.0.1').isLoopback() && ip('::1').family() == 6 && isIP('10.0.0.1') && !isIP('10.0.0.256')",
        "ip.isCanonical('2001:db8::abcd') && !ip.isCanonical('2001:DB8::ABCD') && string(ip('::1')) == '::1'",
        "ip('169.254.0.1').isLinkLocalUnicast() && ip('224.0.0.1').isLinkLocalMulticast() && ip('10.0.0.1').isGlobalUnicast()",
        "cidr('192.168.0.0/24').containsIP('192.168.0.1') && cidr('192.168.0.0/24').containsIP(ip('192.168.0.9'))",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.0.0.0/8').containsCIDR(cidr('0.0.0.0/0'))",
        "cidr('192.168.1.5/24').masked() == cidr('192.168.1.0/24') && cidr('::/0').prefixLength() == 0",
        "cidr('10.0.0.1/8').ip() == ip('10.0.0.1') && isCIDR('fd00::/8') && !isCIDR('10.0.0.0/33')",
        "!format.dns1123Label().validate('my-label').hasValue()",
        "format.dns1123Label().validate('My label').hasValue() && format.named('uuid').hasValue()",
        "format.named('nothing') == optional.none() && !format.date().validate('2021-01-01').hasValue()",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.0.0-rc.1').compareTo(semver('1.0.0')) == -1",
        "isSemver('1.0.0+build') && !isSemver('1.0') && semver('v01.1', true).minor() == 1",
        "timestamp('2026-01-02T03:04:05Z') == self.since && self.since.getFullYear() == 2026",
        "self.since.getMonth() == 0 && self.since.getDayOfWeek() == 5 && self.since.getHours('+02:00') == 5",
        "self.timeout == duration('90m') && self.timeout.getMinutes() == 90 && duration('1.5s') < duration('2s')",
        "self.since + duration('1h') > self.since && self.since - self.since == duration('0')",
        "string(duration('90m')) == '5400s' && string(self.since) == '2026-01-02T03:04:05Z'",
    ]);
}

#[test]
fn optionals() {
    holds(&[
        "!oldSelf.hasValue() && oldSelf.replicas.orValue(7) == 7",
        "self.?name.orValue('x') == 'web' && self.labels[?'nothing'].orValue('x') == 'x'",
        "optional.of(1).optMap(v, v + 1).value() == 2 && !optional.none().hasValue()",
        "optional.of(1).or(optional.of(2)).value() == 1 && optional.ofNonZeroValue('').orValue('e') == 'e'",
        "[?optional.none(), 1] == [1] && {?'a': optional.of(1)} == {'a': 1}",
        "self.labels[?'app'].optFlatMap(v, optional.of(v)).hasValue()",
    ]);
}

#[test]
fn what_does_not_fit_is_told_when_it_is_written() {
    check(
        "self.replica > 1",
        expect![[r#"
        ERROR: <input>:1:5: undefined field 'replica'
         | self.replica > 1
         | ....^"#]],
    );
    check(
        "self.name > 1",
        expect![[r#"
        ERROR: <input>:1:11: found no matching overload for '_>_' applied to '(string, int)'
         | self.name > 1
         | ..........^"#]],
    );
    check(
        "this.name == ''",
        expect![[r#"
        ERROR: <input>:1:1: undeclared reference to 'this' (in container '')
         | this.name == ''
         | ^"#]],
    );
    check(
        "self.name.sizes()",
        expect![[r#"
        ERROR: <input>:1:10: undeclared reference to 'sizes' (in container '')
         | self.name.sizes()
         | .........^"#]],
    );
    check(
        "self.replicas == null",
        expect![[r#"
        ERROR: <input>:1:15: found no matching overload for '_==_' applied to '(int, null)'
         | self.replicas == null
         | ..............^"#]],
    );
    check(
        "self.replicas.all(x, true)",
        expect![[r#"
        ERROR: <input>:1:5: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)
         | self.replicas.all(x, true)
         | ....^"#]],
    );
    check(
        "[1, 'a']",
        expect![[r#"
        ERROR: <input>:1:5: expected type 'int' but found 'string'
         | [1, 'a']
         | ....^"#]],
    );
    check(
        "self.replicas\n  && true",
        expect![[r#"
        ERROR: <input>:2:3: found no matching overload for '_&&_' applied to '(int, bool)'
         |   && true
         | ..^"#]],
    );
}

#[test]
fn what_is_no_expression_is_told_too() {
    check(
        "1 +",
        expect![[r#"
        ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>'
         | 1 +
         | ...^"#]],
    );
    check(
        "has(self)",
        expect![[r#"
        ERROR: <input>:1:5: invalid argument to has() macro
         | has(self)
         | ....^"#]],
    );
    check(
        "self.namespace.size() > 0",
        expect![[r#"
        ERROR: <input>:1:5: undefined field 'namespace'
         | self.namespace.size() > 0
         | ....^"#]],
    );
    check(
        "a ~ b",
        expect![[r#"
        ERROR: <input>:1:3: Syntax error: token recognition error at: '~'
         | a ~ b
         | ..^"#]],
    );
    check(
        "'open",
        expect![[r#"
        ERROR: <input>:1:1: Syntax error: the text is not closed
         | 'open
         | ^"#]],
    );
}

#[test]
fn what_goes_wrong_is_said() {
    check("1 / 0 == 1", expect!["error: division by zero"]);
    check("9223372036854775807 + 1 > 0", expect!["error: integer overflow"]);
    check("self.items[5].port > 0", expect!["error: index out of bounds: 5"]);
    check("self.labels['none'] == ''", expect!["error: no such key: none"]);
    check("self.any < 5", expect!["error: no such overload: _<_(string, int)"]);
    check("'a'.matches('(')", expect!["error: error parsing regexp: unclosed group"]);
    check("duration('1 hour') > duration('0')", expect![[r#"error: invalid duration "1 hour""#]]);
    check("[].min() == 1", expect!["error: min called on empty list"]);
    check("optional.none().value() == 1", expect!["error: optional.none() dereference"]);
}

/// What each of these would cost without a bound is told in hours or in gigabytes.
#[test]
fn a_rule_that_costs_too_much_is_ended() {
    let many: Vec<i64> = (0..1000).collect();
    let text = "x".repeat(100_000);
    let subject = json!({"many": many, "text": text});
    for rule in [
        "self.many.all(a, self.many.all(b, self.many.all(c, a + b + c >= 0)))",
        "self.many.map(a, self.many.map(b, self.many)).size() > 0",
        "self.many.all(a, self.text.matches('(x+x+)+y' + string(a)) || true)",
        "self.many.map(a, self.text + self.text).size() == 0",
        "self.text.split('').map(a, self.text.split('')).size() > 0",
        "self.many.all(a, self.text.replace('', self.text).size() > 0)",
        "self.many.all(a, self.text.findAll('x').size() > 0)",
        "self.many.all(a, '%s%s%s%s'.format([self.text, self.text, self.text, self.text]) != '')",
        "self.many.all(a, self.many.indexOf(-1) == -1 && sets.equivalent(self.many, self.many))",
        "'x'.matches('x{1000}{1000}')",
    ] {
        let program = Program::compile(rule, Type::Dyn, Type::Dyn).expect(rule);
        let mut budget = Budget::new(OBJECT_COST_MAX);
        let result = program.holds(Subject { value: &subject, old: None }, &mut budget);
        match result {
            Err(EvalError::TooCostly) => assert!(budget.left() >= OBJECT_COST_MAX - RULE_COST_MAX),
            Err(EvalError::Failed(message)) => {
                assert!(message.contains("size limit"), "{rule}: {message}")
            }
            other => panic!("{rule}: {other:?}"),
        }
    }
}

#[test]
fn what_is_left_for_all_rules_is_all_that_one_gets() {
    let subject = json!([1, 2, 3]);
    let program = Program::compile("self.all(x, x > 0)", Type::Dyn, Type::Dyn).unwrap();
    let run = |budget: &mut Budget| program.holds(Subject { value: &subject, old: None }, budget);
    let mut budget = Budget::new(100);
    assert_eq!(run(&mut budget), Ok(true));
    let cost = 100 - budget.left();
    assert!((5..50).contains(&cost), "{cost}");
    assert_eq!(run(&mut Budget::new(cost)), Ok(true));
    assert_eq!(run(&mut Budget::new(cost - 1)), Err(EvalError::TooCostly));
}

#[test]
fn nesting_is_bounded() {
    let message = "nested too deeply";
    for rule in [
        format!("{}1{} == 1", "(".repeat(200), ")".repeat(200)),
        format!("{}1{} == []", "[".repeat(200), "]".repeat(200)),
        format!("1{} == 1", " + 1".repeat(1000)),
        format!("self{} == 1", ".a".repeat(1000)),
        format!("self{} == 1", "[0]".repeat(1000)),
        format!("true{}", " ? true : true".repeat(500)),
    ] {
        let found =
            Program::compile(&rule, Type::Dyn, Type::Dyn).expect_err("too deep").to_string();
        assert!(found.contains(message), "{found}");
    }
    // A long chain is none.
    let long = format!("true{}", " && true".repeat(5000));
    assert!(Program::compile(&long, Type::Dyn, Type::Dyn).is_ok());
    let deepest = format!("{}1{} == 1", "(".repeat(45), ")".repeat(45));
    assert!(Program::compile(&deepest, Type::Dyn, Type::Dyn).is_ok());
    let highest = format!("1{} > 1", " + 1".repeat(140));
    assert_eq!(evaluated(&highest), "true");
}

#[test]
fn fields_have_names_that_can_be_written() {
    let names = ["a", "in", "x-y", "a.b/c", "a__b", "_", "1a", "ä", ""];
    let found: Vec<String> =
        names.iter().map(|name| format!("{name}: {:?}\n", escaped(name))).collect();
    expect![[r#"
        a: Some("a")
        in: Some("__in__")
        x-y: Some("x__dash__y")
        a.b/c: Some("a__dot__b__slash__c")
        a__b: Some("a__underscores__b")
        _: Some("_")
        1a: None
        ä: None
        : None
    "#]]
    .assert_eq(&found.concat());
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in ".{0,40}", near in "[a-z0-9.()\\[\\]{}'\"?:+*/&|!<>= -]{0,60}") {
        for text in [text, near] {
            if let Ok(program) = Program::compile(&text, Type::Dyn, Type::Dyn) {
                let mut budget = Budget::new(10_000);
                let object = object();
                let _ = program.evaluate(Subject { value: &object, old: None }, &mut budget);
            }
        }
    }
}
