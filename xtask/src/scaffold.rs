//! `cargo xtask scaffold`: builds, lints (including Dockerfiles), tests and runs projects made by `windlass`, and has a
//! server accept their manifests, from kustomize, the installer and the chart. The same for the projects that readers
//! create by typing the README, the quick start and the tutorial.
//!
//! The projects are in `target/scaffold`, depend on this workspace by path, and share its target directory, lock file and
//! features: nothing is compiled twice, and nothing is downloaded. Only the first project is also compiled with its own
//! features, which shows that it enables all that it needs.

mod bundles;
mod deployed;
mod images;
mod reader;
mod run;
mod servers;
mod terminal;

use std::{
    cell::RefCell,
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};

use self::reader::Reader;
use crate::{cargo, peers};

const USAGE: &str = "usage: cargo xtask scaffold [--only STORY] [--windlass FILE] [--peers DIR] \
                     [--against windlass|kubernetes|KUBECONFIG]";

const CLIPPY: &[&str] = &["clippy", "--quiet", "--all-targets", "--", "-D", "warnings"];

/// Commands that take longer are listed with their time.
const SLOW: Duration = Duration::from_secs(3);

/// A project and how it is created.
struct Story {
    name: &'static str,
    /// Whether samples can be created without the conversion webhook.
    has_samples: bool,
    making: Making,
}

enum Making {
    /// Arguments of `windlass`, one line per command.
    Commands(&'static [&'static str]),
    /// The README, typed completely.
    Readme,
    /// Pages of the book with this prefix, typed completely.
    Page(&'static str),
    /// Pages of the book with this prefix, whose blocks are typed unless they need a registry.
    SomeOfPages(&'static str),
}

/// The second project uses every feature of the scaffold.
const STORIES: &[Story] = &[
    Story {
        name: "guestbook",
        has_samples: true,
        making: Making::Commands(&[
            "create api --group webapp --version v1 --kind Guestbook --field size:int32=1..10,default=1 \
             --field configMapName:string=1..63 --field type:enum(Phone|Address|Name),default=Phone",
            "create webhook --kind Guestbook --defaulting --validating",
            "create overlay production --replicas 3 --shards --cert-manager --watch-namespaces default",
        ]),
    },
    Story {
        name: "everything-with-a-long-name",
        has_samples: false,
        making: Making::Commands(&[
            "create api --group shop --version v1 --kind Book --plural books --field title:string=1..63 \
             --field code:string,pattern=^[a-z\"]{1,3}$,example=abc --field pages:int32=1..5000,default=100 \
             --field price:number=0.5.. --field stock:int --field sold:bool,default=false \
             --field cover:enum(hard|soft-cover),default=hard --field genre:enum(Fiction|Fact)? \
             --field lendFor:duration,default=336h --field weight:quantity --field storage:quantity? \
             --field printed:time --field reprinted:time? --field authors:[]string=1..5 \
             --field formats:[]enum(a4|a5)? --field pauses:[]duration? --field labels:map? --field tags:map=2.. \
             --field type:string? --field podCIDR:string? --field self:int? --field status:enum(on|off) \
             --field limits:map[string]quantity=1.. --field pauseOf:map[string]duration? --field restocked:[]time \
             --field shelf:object --field shelf.row:int32=1..,default=1 --field shelf.side:enum(left|right) \
             --field shelf.label:object? --field shelf.label.text:string --field copies:[]object=2.. \
             --field copies.number:int32 --field copies.signedBy:[]string? --field prices:map[string]object \
             --field prices.amount:number --status-field sold:int32 --status-field phase:enum(New|Old) \
             --status-field since:time --status-field readers:[]object --status-field readers.name:string",
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
            "create controller --kind Namespace --name watch-dog",
            "create controller --group shop --kind Book --name backup",
            "create overlay production --replicas 3 --shards --cert-manager --watch-namespaces default,kube-public",
            "create release",
            "create controller --kind Node",
            "create controller --group cert-manager.io --version v1 --kind Certificate --field secretName:string",
            "import crd {testdata}/certificate.yaml --controller --version v1",
            "import crd {testdata}/cron_tab.yaml",
            "edit --group other --kind Book --field shelf:int32?",
            "create api --group shop --version v1 --kind Passing",
            "delete api --kind Passing",
            "create extension --group clock --version v1alpha1 --kind Alarm --field at:time",
        ]),
    },
    Story { name: "nothing", has_samples: false, making: Making::Commands(&[]) },
    Story { name: "readme", has_samples: true, making: Making::Readme },
    Story { name: "quick-start", has_samples: true, making: Making::Page("quick-start.md") },
    Story { name: "tutorial", has_samples: false, making: Making::SomeOfPages("tutorial/") },
];

/// Creates the projects and checks them.
pub(crate) fn run(args: &[&str]) -> anyhow::Result<()> {
    let (mut against, mut peers, mut only, mut windlass) = ("windlass", peers::folder(), None, None);
    for pair in args.chunks(2) {
        match pair {
            ["--against", server] => against = server,
            ["--peers", folder] => peers = folder.into(),
            ["--only", story] => only = Some(*story),
            ["--windlass", file] => windlass = Some(std::path::absolute(file)?),
            _ => bail!("{USAGE}"),
        }
    }
    let is_meant = |story: &&Story| only.is_none_or(|only| only == story.name);
    ensure!(STORIES.iter().any(|story| is_meant(&story)), "unknown story\n{USAGE}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask must be a directory of the workspace");
    let target = std::path::absolute(peers::target())?;
    let windlass = windlass.map_or_else(cargo::windlass, Ok)?;
    let servers = servers::Options { against: against.to_owned(), windlass: windlass.clone(), peers };
    let tools = servers.tools();
    let workshop = Workshop {
        root: root.to_str().context("the path of the workspace is not UTF-8")?.to_owned(),
        cargo: cargo::program().into(),
        windlass,
        folder: target.join("scaffold"),
        target,
        kubectl: tools.as_ref().map(|tools| tools.kubectl.clone()),
        skipped: RefCell::default(),
    };
    // Cargo finds it above each project.
    fs::create_dir_all(workshop.folder.join(".cargo"))?;
    fs::write(workshop.folder.join(".cargo/config.toml"), settings(root)?)?;
    let linter = images::linter(&workshop.target);
    let validator = bundles::validator(&servers.peers);
    for story in STORIES.iter().filter(is_meant) {
        let start = Instant::now();
        let project = workshop.make(story).with_context(|| story.name.to_owned())?;
        let made = start.elapsed();
        if story.name == STORIES[0].name {
            workshop.check_features(&project).context("with its own features")?;
        }
        workshop.check(&project).with_context(|| story.name.to_owned())?;
        if let Some(linter) = &linter {
            images::lint(linter, &project).with_context(|| story.name.to_owned())?;
        }
        if let Some(validator) = &validator {
            bundles::validate(validator, &project).with_context(|| story.name.to_owned())?;
        }
        if let Some(tools) = &tools {
            servers.check(tools, &project, story.has_samples).with_context(|| story.name.to_owned())?;
            if story.name == STORIES[0].name {
                deployed::check(&workshop, &servers, &project).context("deployed as in its CI workflow")?;
            }
        }
        println!("{}: made in {made:.1?}, all in {:.1?}", story.name, start.elapsed());
    }
    println!("{}", summary(&workshop.skipped.take()));
    Ok(())
}

/// Returns the commands that were not typed, and their number in the last line.
fn summary(skipped: &[String]) -> String {
    let list: String = skipped.iter().map(|command| format!("  {command}\n")).collect();
    match skipped {
        [] => "all commands of the pages were typed".to_owned(),
        [_] => format!("not typed:\n{list}1 command of the pages was not typed"),
        _ => format!("not typed:\n{list}{} commands of the pages were not typed", skipped.len()),
    }
}

/// Directory in which projects are created, and the tools for it.
struct Workshop {
    root: String,
    cargo: PathBuf,
    windlass: PathBuf,
    target: PathBuf,
    folder: PathBuf,
    kubectl: Option<PathBuf>,
    /// Commands of pages that were not typed, and why.
    skipped: RefCell<Vec<String>>,
}

impl Workshop {
    /// Records a command that is not typed.
    fn skip(&self, place: &str, command: &str, why: &str) {
        println!("{place}: not typed, because {why}: {command}");
        self.skipped.borrow_mut().push(format!("{place}: {command} ({why})"));
    }

    fn make(&self, story: &Story) -> anyhow::Result<PathBuf> {
        let commands = match story.making {
            Making::Commands(commands) => commands,
            Making::Readme => return Reader::of_everything(self)?.read_readme(),
            Making::Page(page) => return Reader::of_everything(self)?.read_book(page),
            Making::SomeOfPages(pages) => return Reader::of_some(self).read_book(pages),
        };
        let project = self.init(&["init", story.name, "--domain", "example.com"])?;
        let testdata = format!("{}/crates/windlass-scaffold/testdata/import", self.root);
        for command in commands {
            let words: Vec<String> =
                command.split_whitespace().map(|word| word.replace("{testdata}", &testdata)).collect();
            // From any directory of the project.
            self.windlass(&project.join("src"), &words.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        Ok(project)
    }

    /// Creates a project that depends on this workspace.
    fn init(&self, words: &[&str]) -> anyhow::Result<PathBuf> {
        let project = self.folder.join(words[1]);
        if project.exists() {
            fs::remove_dir_all(&project)?;
        }
        self.windlass(&self.folder, &[words, &["--path", &self.root]].concat())?;
        self.share(&project)?;
        Ok(project)
    }

    /// Lets a project use what is compiled for the workspace: its lock file, and its features.
    fn share(&self, project: &Path) -> anyhow::Result<()> {
        fs::copy(Path::new(&self.root).join("Cargo.lock"), project.join("Cargo.lock"))?;
        self.cargo(project, &["add", "--quiet", "--path", &format!("{}/xtask/features", self.root)])
    }

    /// Compiles a project with its own features.
    fn check_features(&self, project: &Path) -> anyhow::Result<()> {
        self.cargo(project, &["remove", "--quiet", "windlass-shared-features"])?;
        self.cargo(project, CLIPPY)?;
        self.share(project)
    }

    fn check(&self, project: &Path) -> anyhow::Result<()> {
        self.cargo(project, &["fmt", "--check"])?;
        self.cargo(project, CLIPPY)?;
        // Among other commands, its tests and `windlass run`.
        Reader::of_some(self).read_project(project)?;
        self.windlass(project, &["generate"])?;
        self.windlass(project, &["generate", "--check"])
    }

    fn cargo(&self, folder: &Path, arguments: &[&str]) -> anyhow::Result<()> {
        self.execute(&self.cargo, folder, arguments)
    }

    fn windlass(&self, folder: &Path, arguments: &[&str]) -> anyhow::Result<()> {
        self.execute(&self.windlass, folder, arguments)
    }

    fn execute(&self, program: &Path, folder: &Path, arguments: &[&str]) -> anyhow::Result<()> {
        execute(self.command(program, folder).args(arguments))
    }

    fn command(&self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(folder).env("CARGO_TARGET_DIR", &self.target).env_remove("CI");
        cargo::forget(&mut command);
        command
    }
}

/// Returns the cargo configuration of the projects: the development profile of the workspace, so that crates that both use
/// are compiled once. To the projects, the crates of the workspace are dependencies, which have no debug info.
fn settings(root: &Path) -> anyhow::Result<String> {
    let manifest = fs::read_to_string(root.join("Cargo.toml")).context("failed to read Cargo.toml")?;
    let mut settings = "net.offline = true\n".to_owned();
    for section in manifest.split("\n[").filter(|section| section.starts_with("profile.dev")) {
        settings.push_str(&format!("[{section}\n"));
    }
    let debug = env::var("CARGO_PROFILE_DEV_DEBUG").unwrap_or_else(|_| "\"line-tables-only\"".to_owned());
    for entry in fs::read_dir(root.join("crates"))? {
        let name = entry?.file_name();
        let name = name.to_str().context("crate names must be UTF-8")?;
        settings.push_str(&format!("[profile.dev.package.{name}]\ndebug = {debug}\n"));
    }
    Ok(settings)
}

fn execute(command: &mut Command) -> anyhow::Result<()> {
    let line: Vec<&OsStr> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
    let line = line.join(OsStr::new(" "));
    let start = Instant::now();
    let output = command.output().with_context(|| format!("cannot run {}", line.display()))?;
    if start.elapsed() >= SLOW {
        println!("  {:.1?}: {}", start.elapsed(), line.display());
    }
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{} failed\n{}", line.display(), String::from_utf8_lossy(&said));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::summary;

    #[test]
    fn the_summary_lists_and_counts_commands_that_were_not_typed() {
        assert_eq!(summary(&[]), "all commands of the pages were typed");
        let skipped = ["README.md:1: kubectl get pods (why)", "README.md:2: docker push (why)"].map(str::to_owned);
        assert_eq!(summary(&skipped).lines().last(), Some("2 commands of the pages were not typed"));
        assert!(summary(&skipped[..1]).contains("\n  README.md:1: kubectl get pods (why)\n1 command of"));
    }
}
