//! Costs as estimated by kube-apiserver v1.36.

use std::sync::Arc;

use serde_json::json;
use windlass_schema::structural::Structural;

use crate::rules;

const COSTS: [(&str, u64); 53] = [
    ("true", 0),
    ("self.n > 1", 3),
    ("has(self.n)", 1),
    ("self.s == self.s", 314577),
    ("self.short == self.s", 8),
    ("self.kind == 'abc'", 3),
    ("self.s.matches('^[a-z]+$')", 629148),
    ("self.short.contains('ab')", 6),
    ("self.s.startsWith(self.short)", 8),
    ("self.short + self.short == 'x'", 13),
    ("self.few.all(x, x == 'a')", 28),
    ("self.many.all(x, x == 'a')", 5242878),
    ("self.few.all(x, self.few.exists_one(y, x == y))", 238),
    ("self.numbers.sum() > 1", 23),
    ("self.few.max() == 'a'", 28),
    ("self.few.join(',').size() > 1", 25),
    ("self.few.isSorted()", 27),
    ("self.few.filter(x, x.size() > 1).map(x, x + 'y').size() == 1", 176),
    ("self.map.all(k, self.map[k] == 'a')", 35),
    ("self.map.all(k, v, k == v)", 23),
    ("self.map['a'] in self.few", 10),
    ("self.few.transformList(i, x, x + 'z') == []", 113),
    ("self.objects.all(o, o.big == o.small)", 66),
    ("self.objects.all(o, o.list.all(i, o.longer.size() > i))", 5085),
    ("self.deep.a.b.all(e, e.x == e.y && e.y == e.x)", 44),
    ("self.deep.a.b.all(e, e.x.replace('a', 'bcd').contains('b'))", 35),
    ("self.port == 1 || self.port == 'a'", 6),
    ("self.when > timestamp('2020-01-01T00:00:00Z')", 4),
    ("self.raw == b'abc'", 3),
    ("[1, 2, 3].all(x, x > 0)", 26),
    ("{'a': 1}.all(k, k == 'a')", 35),
    ("(self.n > 1 ? self.short : self.s) == 'a'", 6),
    ("self.short.split(',').all(p, p == '')", 171),
    ("self.s.find('[0-9]+') == ''", 629148),
    ("self.few.sort() == self.few", 69),
    ("self.few.distinct().size() == 1", 65),
    ("self.numbers.slice(1, 3).size() == 2", 17),
    ("lists.range(10).sum() > 1", 32),
    ("sets.contains(self.few, ['a'])", 18),
    ("sets.equivalent(self.few, self.few)", 55),
    ("quantity(self.short).isGreaterThan(quantity('1'))", 8),
    ("url(self.short) == url('http://a')", 8),
    ("ip(self.short).family() == 4", 8),
    ("cidr('10.0.0.0/8').containsIP(self.short)", 11),
    ("semver(self.short).major() == 1", 8),
    ("!format.dns1123Label().validate(self.short).hasValue()", 133),
    ("'%s'.format([self.short]) == 'a'", 14),
    ("string(bytes(self.short)) == self.short", 28),
    ("self.?short.orValue('x') == 'x'", 4),
    ("dyn(self.few).size() > 1", 5),
    ("oldSelf.short == self.short", 8),
    ("self.few.map(x, self.few.map(y, y)).flatten().size() > 1", 481),
    ("[self.short, self.s].exists(x, x.contains('a'))", 25),
];

#[test]
fn estimated_costs_match_kube_apiserver() {
    let mut schema = Structural::compile(&json!({"type": "object", "properties": {
        "n": {"type": "integer"},
        "s": {"type": "string"},
        "short": {"type": "string", "maxLength": 10},
        "kind": {"type": "string", "enum": ["a", "long"]},
        "many": {"type": "array", "items": {"type": "string"}},
        "few": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 10}},
        "numbers": {"type": "array", "maxItems": 20, "items": {"type": "integer"}},
        "objects": {"type": "array", "maxItems": 7, "items": {"type": "object", "properties": {
            "big": {"type": "string"},
            "small": {"type": "string", "maxLength": 3},
            "list": {"type": "array", "maxItems": 9, "items": {"type": "integer"}},
            "longer": {"type": "array", "maxItems": 90, "items": {"type": "integer"}}}}},
        "map": {"type": "object", "maxProperties": 4, "additionalProperties": {"type": "string", "maxLength": 8}},
        "deep": {"type": "object", "properties": {"a": {"type": "object", "properties": {
            "b": {"type": "array", "maxItems": 3, "items": {"type": "object", "properties": {
                "x": {"type": "string", "maxLength": 2},
                "y": {"type": "string", "maxLength": 50}}}}}}}},
        "port": {"x-kubernetes-int-or-string": true},
        "when": {"type": "string", "format": "date-time"},
        "raw": {"type": "string", "format": "byte", "maxLength": 30}}}))
    .expect("the schema must be structural");
    schema.rules = COSTS
        .iter()
        .map(|(rule, _)| windlass_schema::structural::Rule { rule: (*rule).to_owned(), ..Default::default() })
        .collect();
    let rules = rules::compile(&Arc::new(schema), true).expect("the schema must have rules");
    for (compiled, (rule, cost)) in rules.of_root().iter().zip(COSTS) {
        assert_eq!(compiled.error, None, "{rule}");
        assert_eq!(compiled.max_cost, cost, "{rule}");
    }
}

#[test]
fn estimates_saturate_at_the_maximum() {
    use super::Estimate;
    assert_eq!(Estimate::UNKNOWN.plus(Estimate::ONE).max, u64::MAX);
    assert_eq!(Estimate::UNKNOWN.multiply(Estimate::fixed(2)), Estimate { min: 0, max: u64::MAX });
    assert_eq!(Estimate::UNKNOWN.scale(1.0).max, u64::MAX);
    assert_eq!(Estimate::fixed(11).scale(0.1), Estimate::fixed(2));
}
