//! `windlass snapshot save`: from a running control plane, or from the data directory of a stopped one.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use http::Request;
use http_body_util::BodyExt as _;
use windlass_plane::snapshot;

use super::{Meter, file::Output};
use crate::{cluster::ClusterArgs, data_dir::DataDirArgs, failure::ErrorWithHint, running::Presence, threads};

/// Save all objects of a control plane to a file
///
/// The control plane may be running, and continues to accept writes. The file appears when it is complete and checked;
/// an existing file is replaced.
#[derive(Debug, Args)]
pub(crate) struct SaveArgs {
    /// File to write
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// Kubeconfig of an administrator, to save a control plane on another machine
    #[arg(long, value_name = "FILE", conflicts_with = "data_dir")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,
}

/// Saves a snapshot.
pub(super) fn run(args: &SaveArgs) -> anyhow::Result<()> {
    let mut output = Output::create(&args.file)?;
    let mut meter = Meter::new("saved");
    match &args.kubeconfig {
        Some(kubeconfig) => {
            let cluster = ClusterArgs { kubeconfig: Some(kubeconfig.clone()), context: args.context.clone() };
            threads::block_on(download(&cluster, &mut output, &mut meter))?;
        }
        None => {
            let folder = args.data_dir.resolve()?;
            match Presence::of(&folder)? {
                Presence::Serving(_) => {
                    let cluster = ClusterArgs::of(&folder.join("kubeconfig"));
                    threads::block_on(download(&cluster, &mut output, &mut meter))?;
                }
                Presence::Nobody => threads::block_on(read(&folder, &mut output, &mut meter))?,
                Presence::Busy { .. } => {
                    return Err(ErrorWithHint {
                        message: format!("the control plane in {} is starting or stopping", folder.display()),
                        hint: "try again in a moment".into(),
                    }
                    .into());
                }
            }
        }
    }
    let speed = meter.done(output.written());
    let contents = output.complete()?;
    contents.warn();
    let file = args.file.display();
    eprintln!("saved {} objects at revision {} to {file} ({speed})", contents.objects, contents.revision);
    Ok(())
}

/// Saves the objects of a running control plane.
async fn download(cluster: &ClusterArgs, output: &mut Output, meter: &mut Meter) -> anyhow::Result<()> {
    let cluster = cluster.connect().await?;
    let request =
        Request::get(snapshot::PATH).body(kube::client::Body::empty()).context("failed to build the request")?;
    let response = cluster.client.send(request).await;
    let response = response.with_context(|| format!("failed to request a snapshot from {}", cluster.url))?;
    if !response.status().is_success() {
        return Err(rejected(&cluster.url, response.status()).into());
    }
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.with_context(|| format!("the connection to {} broke", cluster.url))?;
        if let Ok(piece) = frame.into_data() {
            output.write(&piece)?;
            meter.at(output.written());
        }
    }
    Ok(())
}

fn rejected(url: &str, status: http::StatusCode) -> ErrorWithHint {
    let hint = match status.as_u16() {
        401 | 403 => "use the kubeconfig of an administrator (group system:masters)",
        404 => "only windlass saves snapshots in this way; use `etcdctl snapshot save` for other clusters",
        _ => "see the log of the control plane",
    };
    ErrorWithHint { message: format!("{url} rejected the request for a snapshot: {status}"), hint: hint.into() }
}

/// Saves the objects of a stopped control plane.
async fn read(folder: &Path, output: &mut Output, meter: &mut Meter) -> anyhow::Result<()> {
    if !folder.join("store.redb").exists() {
        return Err(ErrorWithHint {
            message: format!("{} has no stored objects", folder.display()),
            hint: "choose the data directory with --data-dir, or a running control plane with --kubeconfig".into(),
        }
        .into());
    }
    let mut saving = snapshot::save(folder).await?;
    while let Some(piece) = saving.encoder.next_piece().context("failed to read the stored objects")? {
        output.write(&piece)?;
        meter.at(output.written());
    }
    Ok(())
}
