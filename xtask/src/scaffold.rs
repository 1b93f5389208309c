//! `cargo xtask scaffold`: projects that `windlass` makes are built, linted, tested and run, and a server accepts their
//! manifests, from kustomize, the installer and the chart.
//!
//! They lie in `target/scaffold`, depend on this workspace by its path, and share its target folder and its lock file:
//! what is compiled once is not compiled again, and nothing is downloaded.

mod run;
mod servers;

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context as _, bail, ensure};

use crate::peers;

const USAGE: &str =
    "usage: cargo xtask scaffold [--peers DIR] [--against windlass|kubernetes|KUBECONFIG] [--only STORY]";

/// A project: what is typed after `windlass`, a line a command.
struct Story {
    name: &'static str,
    /// Whether samples can be created while nobody converts between versions.
    has_samples: bool,
    commands: &'static [&'static str],
}

/// The first is what the quick start shows; the second has everything that can be generated.
const STORIES: &[Story] = &[
    Story {
        name: "guestbook",
        has_samples: true,
        commands: &[
            "create api --group webapp --version v1 --kind Guestbook --field size:int32=1..10,default=1 \
             --field configMapName:string=1..63 --field type:enum(Phone|Address|Name),default=Phone",
            "create webhook --kind Guestbook --defaulting --validating",
        ],
    },
    Story {
        name: "everything-with-a-long-name",
        has_samples: false,
        commands: &[
            "create api --group shop --version v1 --kind Book --plural books --field title:string=1..63 \
             --field code:string,pattern=^[a-z\"]{1,3}$,example=abc --field pages:int32=1..5000,default=100 \
             --field price:number=0.5.. --field stock:int --field sold:bool,default=false \
             --field cover:enum(hard|soft-cover),default=hard --field genre:enum(Fiction|Fact)? \
             --field lendFor:duration,default=336h --field weight:quantity --field storage:quantity? \
             --field printed:time --field reprinted:time? --field authors:[]string=1..5 \
             --field formats:[]enum(a4|a5)? --field pauses:[]duration? --field labels:map? --field tags:map=2.. \
             --field type:string? --field podCIDR:string? --field self:int? --field status:enum(on|off)",
            "create api --version v1alpha1 --kind Order --cluster",
            "create api --group shop --version v1 --kind Type --no-controller",
            "create api --group other --version v1 --kind Book",
            "create version --group shop --version v2 --kind Book",
            "create version --group shop --version v1beta1 --kind Book --storage",
            "create webhook --group shop --kind Book --defaulting --validating",
            "create webhook --kind Order --validating",
            "create webhook --kind Type --defaulting",
            "create webhook --kind Ingress --defaulting --validating",
            "create controller --group apps --version v1 --kind Deployment",
            "create controller --kind Namespace",
            "create controller --kind Node",
            "create controller --group cert-manager.io --version v1 --kind Certificate --field secretName:string",
            "import crd {testdata}/certificate.yaml --controller --version v1",
            "import crd {testdata}/cron_tab.yaml",
            "edit --group other --kind Book --field shelf:int32?",
            "create api --group shop --version v1 --kind Passing",
            "delete api --kind Passing",
        ],
    },
    Story { name: "nothing", has_samples: false, commands: &[] },
];

/// Makes the projects and checks them.
pub(crate) fn run(args: &[&str]) -> anyhow::Result<()> {
    let mut servers = servers::Options { against: "windlass".to_owned(), peers: peers::folder() };
    let mut only = None;
    for pair in args.chunks(2) {
        match pair {
            ["--against", server] => servers.against = (*server).to_owned(),
            ["--peers", folder] => servers.peers = folder.into(),
            ["--only", story] => only = Some(*story),
            _ => bail!("{USAGE}"),
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask must lie in the workspace");
    let target = std::path::absolute(peers::target())?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    execute(Command::new(&cargo).current_dir(root).args(["build", "--package", "windlass-cli"]))?;
    let windlass = target.join("debug/windlass");
    let folder = target.join("scaffold");
    // Cargo finds it above each project, whoever calls it.
    fs::create_dir_all(folder.join(".cargo"))?;
    fs::write(folder.join(".cargo/config.toml"), settings(root)?)?;
    let tools = servers.tools();
    for story in STORIES.iter().filter(|story| only.is_none_or(|only| only == story.name)) {
        let start = Instant::now();
        let project = make(story, root, &folder, &windlass).with_context(|| story.name.to_owned())?;
        let made = start.elapsed();
        let cargo = |arguments: &[&str]| {
            let mut command = Command::new(&cargo);
            command.current_dir(&project).env("CARGO_TARGET_DIR", &target).env_remove("CI").args(arguments);
            execute(&mut command).with_context(|| story.name.to_owned())
        };
        cargo(&["fmt", "--check"])?;
        cargo(&["test", "--quiet"])?;
        cargo(&["clippy", "--quiet", "--all-targets", "--", "-D", "warnings"])?;
        if !story.commands.is_empty() {
            run::until_ready(&windlass, &project, &target).with_context(|| story.name.to_owned())?;
        }
        for flags in [&["generate"][..], &["generate", "--check"]] {
            let mut generate = Command::new(&windlass);
            generate.current_dir(&project).args(flags).env("CARGO_TARGET_DIR", &target);
            execute(&mut generate).with_context(|| story.name.to_owned())?;
        }
        if let Some(tools) = &tools {
            servers.check(tools, &project, story.has_samples).with_context(|| story.name.to_owned())?;
        }
        println!("{}: made in {made:.1?}, all in {:.1?}", story.name, start.elapsed());
    }
    Ok(())
}

/// How the workspace compiles what others wrote, and what is its own: crates that are compiled the same way are compiled
/// once.
fn settings(root: &Path) -> anyhow::Result<String> {
    let mut settings = "net.offline = true\nprofile.dev.package.\"*\" = { debug = false, opt-level = 1 }\n".to_owned();
    for entry in fs::read_dir(root.join("crates"))? {
        let name = entry?.file_name();
        let name = name.to_str().context("a crate must have a name in UTF-8")?;
        settings.push_str(&format!("profile.dev.package.{name}.opt-level = 0\n"));
    }
    Ok(settings)
}

/// Types the commands of a story.
fn make(story: &Story, root: &Path, folder: &Path, windlass: &Path) -> anyhow::Result<PathBuf> {
    let project = folder.join(story.name);
    if project.exists() {
        fs::remove_dir_all(&project)?;
    }
    let root = root.to_str().context("the workspace must have a name in UTF-8")?;
    let init = ["init", story.name, "--domain", "example.com", "--path", root];
    execute(Command::new(windlass).current_dir(folder).args(init))?;
    let testdata = format!("{root}/crates/windlass-scaffold/testdata/import");
    for command in story.commands {
        let words = command.split_whitespace().map(|word| word.replace("{testdata}", &testdata));
        // From any folder of the project.
        execute(Command::new(windlass).current_dir(project.join("src")).args(words))?;
    }
    fs::copy(Path::new(root).join("Cargo.lock"), project.join("Cargo.lock"))?;
    Ok(project)
}

fn execute(command: &mut Command) -> anyhow::Result<()> {
    let line: Vec<&OsStr> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
    let line = line.join(OsStr::new(" "));
    let output = command.output().with_context(|| format!("cannot run {}", line.display()))?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{} failed\n{}", line.display(), String::from_utf8_lossy(&said));
    Ok(())
}
