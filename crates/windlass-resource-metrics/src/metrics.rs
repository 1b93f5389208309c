//! Measures on demand, and serves the results.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_apiserver::{
    computed::{ComputedKind, ComputedObjects, ComputedTable},
    status::{ApiError, Result},
};
use windlass_schema::sorting;

use crate::{
    objects,
    sample::{MeasuredObject, NodeSample},
    windows::Windows,
};

/// The time between two measurements.
pub const RESOLUTION: Duration = Duration::from_secs(15);
/// The age at which a measurement is too old to be the beginning of a window.
const OLDEST: Duration = Duration::from_secs(60);
/// The length of a window that has to be measured while a request waits.
const SHORTEST: Duration = Duration::from_secs(1);

/// The nodes and pods to measure.
#[async_trait]
pub trait MetricsSource: Send + Sync {
    /// Measures all nodes and their pods. Nodes that do not respond are left out.
    ///
    /// # Errors
    /// Returns an error if nothing can be measured.
    async fn measure(&self) -> std::result::Result<Vec<NodeSample>, String>;

    /// Returns the nodes.
    ///
    /// # Errors
    /// Returns an error if they cannot be listed.
    async fn nodes(&self) -> std::result::Result<Vec<MeasuredObject>, String>;

    /// Returns the pods of a namespace, or of all namespaces if it is empty.
    ///
    /// # Errors
    /// Returns an error if they cannot be listed.
    async fn pods(&self, namespace: &str) -> std::result::Result<Vec<MeasuredObject>, String>;
}

/// The resource metrics of a cluster.
///
/// Nothing is measured without requests. A request after the [resolution](RESOLUTION) has passed measures again; one
/// after a longer pause measures twice, a second apart. A server that measures regularly calls
/// [`measure`](Self::measure) itself.
pub struct ResourceMetrics {
    source: Arc<dyn MetricsSource>,
    windows: Mutex<Windows>,
    /// Time at which the last measurement was made. Locked while one is made, so that other requests wait for it.
    measured: tokio::sync::Mutex<Option<Instant>>,
}

impl ResourceMetrics {
    /// Metrics from a source.
    pub fn new(source: Arc<dyn MetricsSource>) -> Arc<Self> {
        Arc::new(Self { source, windows: Mutex::default(), measured: tokio::sync::Mutex::default() })
    }

    /// Measures all nodes and pods.
    ///
    /// # Errors
    /// Returns an error if nothing can be measured.
    pub async fn measure(&self) -> std::result::Result<(), String> {
        let mut measured = self.measured.lock().await;
        self.add_measurement(&mut measured).await
    }

    async fn add_measurement(&self, measured: &mut Option<Instant>) -> std::result::Result<(), String> {
        let samples = self.source.measure().await?;
        self.windows.lock().add(samples, RESOLUTION);
        *measured = Some(Instant::now());
        Ok(())
    }

    /// Measures, if the last measurement is not recent.
    async fn refresh(&self) -> Result<()> {
        let mut measured = self.measured.lock().await;
        let age = measured.map(|measured| measured.elapsed());
        let refreshing = async {
            match age {
                Some(age) if age < RESOLUTION => Ok(()),
                Some(age) if age < OLDEST => self.add_measurement(&mut measured).await,
                _ => {
                    self.windows.lock().add(Vec::new(), RESOLUTION);
                    self.add_measurement(&mut measured).await?;
                    tokio::time::sleep(SHORTEST).await;
                    self.add_measurement(&mut measured).await
                }
            }
        };
        refreshing.await.map_err(ApiError::internal)
    }

    /// Returns the kinds NodeMetrics and PodMetrics, with their objects.
    pub fn kinds(self: &Arc<Self>) -> [ComputedKind; 2] {
        let usage = objects::usage_schema();
        let container = json!({"type": "object", "required": ["name", "usage"],
            "properties": {"name": {"type": "string"}, "usage": usage}});
        let containers =
            json!({"containers": {"type": "array", "description": "Usage by container.", "items": container}});
        let nodes = objects::definition("NodeMetrics", "nodes", "Cluster", &json!({"usage": usage}));
        let pods = objects::definition("PodMetrics", "pods", "Namespaced", &containers);
        [ComputedKind::new(nodes, Arc::new(Nodes(self.clone()))), ComputedKind::new(pods, Arc::new(Pods(self.clone())))]
    }
}

fn sorted(mut objects: Vec<MeasuredObject>) -> Vec<MeasuredObject> {
    sorting::sort_by(&mut objects, |one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    objects
}

/// The objects of the kind NodeMetrics.
struct Nodes(Arc<ResourceMetrics>);

#[async_trait]
impl ComputedObjects for Nodes {
    async fn list(&self, _namespace: &str) -> Result<Vec<Value>> {
        self.0.refresh().await?;
        let nodes = sorted(self.0.source.nodes().await.map_err(ApiError::internal)?);
        let (now, windows) = (windlass_clock::now(), self.0.windows.lock());
        Ok(nodes.iter().filter_map(|node| Some(objects::node(node, &windows.node(&node.name)?, now))).collect())
    }

    fn table(&self, objects: &[Value]) -> Option<ComputedTable> {
        Some(objects::table(objects))
    }
}

/// The objects of the kind PodMetrics.
struct Pods(Arc<ResourceMetrics>);

#[async_trait]
impl ComputedObjects for Pods {
    async fn list(&self, namespace: &str) -> Result<Vec<Value>> {
        self.0.refresh().await?;
        let pods = sorted(self.0.source.pods(namespace).await.map_err(ApiError::internal)?);
        let (now, windows) = (windlass_clock::now(), self.0.windows.lock());
        let metrics = |pod: &MeasuredObject| Some(objects::pod(pod, &windows.pod(&pod.namespace, &pod.name)?, now));
        Ok(pods.iter().filter_map(metrics).collect())
    }

    fn table(&self, objects: &[Value]) -> Option<ComputedTable> {
        Some(objects::table(objects))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use jiff::Timestamp;

    use super::*;
    use crate::sample::Point;

    /// A node that uses half a core.
    #[derive(Default)]
    struct HalfACore {
        measurements: AtomicU64,
    }

    #[async_trait]
    impl MetricsSource for HalfACore {
        async fn measure(&self) -> std::result::Result<Vec<NodeSample>, String> {
            self.measurements.fetch_add(1, Ordering::Relaxed);
            let time = windlass_clock::now();
            let cpu = u64::try_from(time.as_nanosecond() / 2).unwrap();
            let point = Point { started: Some(Timestamp::UNIX_EPOCH), time, cpu, memory: 1 << 20 };
            Ok(vec![NodeSample { name: "a".to_owned(), node: Some(point), pods: Vec::new() }])
        }

        async fn nodes(&self) -> std::result::Result<Vec<MeasuredObject>, String> {
            let named = |name: &str| MeasuredObject { name: name.to_owned(), ..MeasuredObject::default() };
            Ok(vec![named("never-measured"), named("a")])
        }

        async fn pods(&self, _: &str) -> std::result::Result<Vec<MeasuredObject>, String> {
            Err("there is no API server".to_owned())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_measured_more_often_than_the_resolution() {
        let _time = windlass_clock::virtual_time();
        let source = Arc::new(HalfACore::default());
        let metrics = ResourceMetrics::new(source.clone());
        let nodes = Nodes(metrics.clone());
        let mut seen = Vec::new();
        for wait in [0, 14, 1, 59, 60] {
            tokio::time::sleep(Duration::from_secs(wait)).await;
            let list = nodes.list("").await.unwrap();
            assert_eq!(list.len(), 1);
            assert_eq!(list[0]["usage"], json!({"cpu": "500m", "memory": "1Mi"}));
            let window = windlass_schema::time::parse_duration(list[0]["window"].as_str().unwrap()).unwrap();
            // Timers are exact to a few milliseconds.
            seen.push((source.measurements.load(Ordering::Relaxed), (window + 500_000_000) / 1_000_000_000));
        }
        assert_eq!(seen, [(2, 1), (2, 1), (3, 15), (4, 59), (6, 1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_returned_to_the_client() {
        let metrics = ResourceMetrics::new(Arc::new(HalfACore::default()));
        let failure = Pods(metrics).list("").await.unwrap_err();
        assert!(failure.to_string().contains("there is no API server"), "{failure}");
    }
}
