//! The flow schemas and priority levels in effect.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use serde_json::Value;
use tracing::warn;
use windlass_schema::sorting;

use super::{
    allocation::{Bounds, LevelDemand},
    defaults,
    demand::PastDemand,
    level::{LevelSpec, Response},
    queue_set::QueueSet,
    schema::{Digest, SchemaFilter, SchemaSpec},
    seat::{LevelState, Queues},
    statistics::Statistics,
};
use crate::storage::ResourceCache;

const SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// The flow schemas and priority levels in effect.
#[derive(Default)]
pub(super) struct Configuration {
    /// In the order of precedence.
    pub(super) flows: Vec<Arc<Flow>>,
    filter: SchemaFilter,
    /// The schema of requests that no schema matches.
    fallback: Option<Arc<Flow>>,
    pub(super) levels: Vec<Arc<Level>>,
    pub(super) fair_fraction: AtomicFloat,
}

/// A flow schema in effect.
pub(crate) struct Flow {
    pub(super) name: String,
    pub(super) spec: SchemaSpec,
    pub(super) level: Arc<Level>,
    pub(super) statistics: Arc<Statistics>,
    uid: HeaderValue,
}

/// A priority level in effect.
pub(super) struct Level {
    pub(super) name: String,
    pub(super) spec: LevelSpec,
    pub(super) bounds: Bounds,
    /// Maximum number of seats of a request.
    pub(super) max_seats: usize,
    pub(super) shared: Arc<LevelState>,
    /// The highest demand of an exempt level is the sum of these.
    pub(super) statistics: Mutex<Vec<Arc<Statistics>>>,
    uid: HeaderValue,
}

/// A number that is set by one task and read by others.
#[derive(Default)]
pub(super) struct AtomicFloat(AtomicU64);

impl AtomicFloat {
    pub(super) fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

/// An object with its name, UID and compiled spec.
struct Compiled<S> {
    name: String,
    uid: HeaderValue,
    spec: S,
}

impl Configuration {
    /// Compiles the objects in the caches. Missing mandatory objects are added. Queues and counters of the previous
    /// configuration are kept.
    pub(super) fn compile(
        schemas: &ResourceCache,
        levels: &ResourceCache,
        total_seats: usize,
        before: &Self,
        now: Duration,
    ) -> Self {
        let (levels, schemas) = (levels.snapshot(), schemas.snapshot());
        let levels = compile_levels(levels.objects().map(|object| object.to_value()));
        let schemas = compile_schemas(schemas.objects().map(|object| object.to_value()), &levels);
        let all_shares = levels.iter().map(|level| level.spec.shares.shares).fold(0, u32::saturating_add);
        let levels: Vec<Arc<Level>> =
            levels.into_iter().map(|level| Arc::new(Level::new(level, all_shares, total_seats, before, now))).collect();
        let flows: Vec<Arc<Flow>> = schemas
            .into_iter()
            .filter_map(|schema| {
                let level = levels.iter().find(|level| level.name == schema.spec.level)?;
                Some(Arc::new(Flow::new(schema, level.clone(), before)))
            })
            .collect();
        let fallback = flows.iter().find(|flow| flow.name == "catch-all").or(flows.last()).cloned();
        let filter = SchemaFilter::new(flows.iter().map(|flow| &flow.spec));
        Self { flows, filter, fallback, levels, fair_fraction: AtomicFloat::default() }
    }

    /// Returns the first flow schema that matches a request.
    pub(super) fn classify(&self, request: &Digest<'_>) -> &Arc<Flow> {
        let mut candidates = self.filter.candidates(request).map(|place| &self.flows[place]);
        let matching = candidates.find(|flow| flow.spec.matches(request));
        matching.or(self.fallback.as_ref()).expect("a configuration has the mandatory schemas")
    }
}

impl Flow {
    fn new(schema: Compiled<SchemaSpec>, level: Arc<Level>, before: &Configuration) -> Self {
        let known = before.flows.iter().find(|flow| flow.name == schema.name && flow.level.name == level.name);
        let statistics = known.map(|flow| flow.statistics.clone()).unwrap_or_default();
        level.statistics.lock().push(statistics.clone());
        Self { name: schema.name, spec: schema.spec, level, statistics, uid: schema.uid }
    }

    /// Adds the headers that show how a request was classified.
    pub(crate) fn add_headers(&self, headers: &mut HeaderMap) {
        headers.insert(LEVEL_UID, self.level.uid.clone());
        headers.insert(SCHEMA_UID, self.uid.clone());
    }
}

impl Level {
    fn new(
        level: Compiled<LevelSpec>,
        all_shares: u32,
        total_seats: usize,
        before: &Configuration,
        now: Duration,
    ) -> Self {
        let Compiled { name, uid, spec } = level;
        let bounds = Bounds::of(spec.shares, all_shares, total_seats);
        let max_seats = spec.queuing().map_or(usize::MAX, |queuing| bounds.max_seats(queuing.hand_size));
        let known = before.levels.iter().find(|level| level.name == name);
        let shared = match known {
            Some(known) => {
                let mut queues = known.shared.queues.lock();
                // Seats that were borrowed or lent stay so until the next redistribution.
                let seats = queues.set.limit().clamp(bounds.lower, bounds.upper);
                let seats = if known.bounds == bounds { seats } else { bounds.initial() };
                queues.set.configure(now, spec.queuing(), seats);
                queues.wake_dispatched();
                known.shared.clone()
            }
            None => Arc::new(LevelState {
                queues: Mutex::new(Queues::new(QueueSet::new(now, spec.queuing(), bounds.initial()))),
                retry: Mutex::default(),
            }),
        };
        Self { name, spec, bounds, max_seats, shared, statistics: Mutex::default(), uid }
    }

    pub(super) fn is_exempt(&self) -> bool {
        self.spec.response == Response::Exempt
    }

    /// Returns the demand since the last call.
    pub(super) fn end_period(&self, now: Duration) -> LevelDemand {
        let demand = if self.is_exempt() {
            let highest = self.statistics.lock().iter().map(|statistics| statistics.take_highest()).sum();
            PastDemand { highest, ..PastDemand::default() }
        } else {
            self.shared.queues.lock().set.demand_mut().end_period(now)
        };
        LevelDemand { bounds: self.bounds, exempt: self.is_exempt(), demand }
    }

    pub(super) fn set_seats(&self, now: Duration, seats: usize) {
        let mut queues = self.shared.queues.lock();
        queues.set.configure(now, self.spec.queuing(), seats);
        queues.wake_dispatched();
    }
}

fn compile<S>(object: &Value, spec: S) -> Compiled<S> {
    let metadata = &object["metadata"];
    let uid = metadata["uid"].as_str().and_then(|uid| HeaderValue::from_str(uid).ok());
    Compiled {
        name: metadata["name"].as_str().unwrap_or_default().to_owned(),
        uid: uid.unwrap_or_else(|| HeaderValue::from_static("")),
        spec,
    }
}

/// Returns the levels of the objects that are not broken, and the mandatory ones.
fn compile_levels(objects: impl Iterator<Item = Value>) -> Vec<Compiled<LevelSpec>> {
    let mut levels = BTreeMap::new();
    for object in defaults::priority_levels().filter(is_mandatory).chain(objects) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        match LevelSpec::compile(name, &object["spec"]) {
            Some(spec) => drop(levels.insert(name.to_owned(), compile(&object, spec))),
            None => warn!(name, "ignoring a broken PriorityLevelConfiguration"),
        }
    }
    levels.into_values().collect()
}

/// Returns the schemas whose levels exist and the mandatory ones, in the order of precedence.
fn compile_schemas(objects: impl Iterator<Item = Value>, levels: &[Compiled<LevelSpec>]) -> Vec<Compiled<SchemaSpec>> {
    let mut schemas = BTreeMap::new();
    for object in defaults::flow_schemas().filter(is_mandatory).chain(objects) {
        let schema = compile(&object, SchemaSpec::compile(&object["spec"]));
        if levels.iter().any(|level| level.name == schema.spec.level) {
            schemas.insert(schema.name.clone(), schema);
        }
    }
    let mut schemas: Vec<_> = schemas.into_values().collect();
    sorting::sort_by_key(&mut schemas, |schema| schema.spec.precedence);
    schemas
}

fn is_mandatory(object: &Value) -> bool {
    object["metadata"]["name"].as_str().is_some_and(|name| defaults::MANDATORY.contains(&name))
}
