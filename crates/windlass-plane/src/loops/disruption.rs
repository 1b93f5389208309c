//! Disruption budgets: how many pods may go.

use windlass::operator::Operator;

use super::Wiring;

pub(super) fn add(operator: Operator, _wiring: &Wiring) -> Operator {
    operator
}
