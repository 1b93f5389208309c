//! A terminal at the root of the repository, in which the commands of a page are typed verbatim.
//!
//! Lines are run by `sh`, with the built `windlass` first on the PATH. The exceptions are listed in [`Typed`]; a
//! program that is not known is an error, so that no command of a page goes unchecked by accident.
//!
//! `git clone` is typed with the path of this repository in place of the URL, and Cargo must be able to load every
//! package of the clone. Later commands are typed in this repository, because Cargo would compile all crates again in
//! another directory. `cargo install --path` is not typed, because it costs a release build.

use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use windlass_book::shell;

use super::{Workshop, execute, run};

/// Time limit for commands that depend on a background command, which may have to be compiled.
const BACKGROUND_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum time for a watch to print its first line: a CronJob starts every minute.
const FIRST_LINE_TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Programs that can be typed.
const KNOWN: &[&str] = &["cargo", "cd", "eval", "git", "kubectl", "windlass"];

/// Way of typing a command of a page.
#[derive(Debug, PartialEq, Eq)]
enum Typed {
    /// As it stands.
    Run,
    /// As it stands, until Ctrl-C after the first line of output.
    Watch,
    /// As it stands, while the next commands are typed.
    Background,
    /// `eval "$(windlass up --background)"`: also sets the variables of the terminal.
    Evaluate,
    /// `cd DIR`
    ChangeDirectory(String),
    /// `git clone URL`: from this repository instead of the URL. The next commands are typed in this repository.
    Clone(String),
    /// `cargo install`: the program is already on the PATH. Only the package is checked.
    Install(Vec<String>),
    /// `windlass init NAME`: in the directory for projects instead of the repository.
    Init(String),
    /// `windlass run`, with these arguments: until the operator or an object is ready.
    UntilReady(Vec<String>),
    /// Another step of CI runs it.
    ElsewhereInCi,
}

/// A part of a line between `&&`.
#[derive(Debug, PartialEq, Eq)]
struct Segment {
    text: String,
    background: bool,
}

/// A shell session.
pub(super) struct Terminal<'a> {
    workshop: &'a Workshop,
    /// The working directory.
    pub(super) folder: PathBuf,
    variables: BTreeMap<&'static str, String>,
    /// Directories that a page creates in one place and that are in another here.
    moved: BTreeMap<String, PathBuf>,
    /// Target of `cd ..` in such a directory.
    parents: BTreeMap<PathBuf, PathBuf>,
    background: Vec<Background>,
    /// The last project that was created.
    pub(super) project: Option<PathBuf>,
    logs: usize,
}

/// A command in the background with its whole process group; killed when dropped.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        signal("KILL", &self.0);
        let _ = self.0.wait();
    }
}

fn signal(name: &str, child: &Child) {
    let group = format!("-{}", child.id());
    // Fails if the group no longer exists.
    let _ = Command::new("kill").args(["-s", name, "--", &group]).stderr(Stdio::null()).status();
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.background.clear();
        if self.variables.contains_key("KUBECONFIG") {
            let _ = execute(&mut self.shell("windlass down"));
        }
    }
}

impl<'a> Terminal<'a> {
    /// Opens a terminal at the root of the repository.
    pub(super) fn open(workshop: &'a Workshop) -> anyhow::Result<Self> {
        let data = workshop.folder.join("terminal");
        if data.exists() {
            fs::remove_dir_all(&data).with_context(|| format!("cannot remove {}", data.display()))?;
        }
        fs::create_dir_all(&data)?;
        let mut path: Vec<PathBuf> = workshop.windlass.parent().map(Path::to_owned).into_iter().collect();
        // A kubectl from the PATH is only a name.
        let kubectl = workshop.kubectl.as_ref().and_then(|kubectl| kubectl.parent());
        path.extend(kubectl.filter(|folder| !folder.as_os_str().is_empty()).map(Path::to_owned));
        path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
        let text = |path: PathBuf| path.into_os_string().into_string().ok().context("a path is not UTF-8");
        let variables = BTreeMap::from([
            ("PATH", env::join_paths(path)?.into_string().ok().context("PATH is not UTF-8")?),
            ("WINDLASS_DATA_DIR", text(data.join("data"))?),
        ]);
        Ok(Self {
            workshop,
            folder: PathBuf::from(&workshop.root),
            variables,
            moved: BTreeMap::new(),
            parents: BTreeMap::new(),
            background: Vec::new(),
            project: None,
            logs: 0,
        })
    }

    /// Types a line. `place` is where it stands, for messages.
    pub(super) fn type_line(&mut self, line: &str, place: &str) -> anyhow::Result<()> {
        for segment in segments(line) {
            let typed = classify(&segment).with_context(|| place.to_owned())?;
            if needs_kubectl(&segment.text) && self.workshop.kubectl.is_none() {
                self.workshop.skip(place, &segment.text, "kubectl is not installed");
                continue;
            }
            println!("{place}: {}", segment.text);
            self.type_segment(&typed, &segment.text).with_context(|| format!("{place}: {}", segment.text))?;
        }
        Ok(())
    }

    fn type_segment(&mut self, typed: &Typed, text: &str) -> anyhow::Result<()> {
        match typed {
            Typed::Run => self.run(text),
            Typed::Watch => self.watch(text),
            Typed::Background => self.start(text),
            Typed::Evaluate => self.evaluate(text),
            Typed::ChangeDirectory(folder) => self.change_directory(folder),
            Typed::Clone(name) => self.clone_repository(name),
            Typed::Install(words) => self.check_install(words),
            Typed::Init(name) => self.init(name, text),
            Typed::UntilReady(arguments) => run::until_ready(self.workshop, &self.folder, arguments),
            Typed::ElsewhereInCi => {
                println!("  not typed: another step of CI runs it");
                Ok(())
            }
        }
    }

    fn shell(&self, text: &str) -> Command {
        let mut command = self.workshop.command(Path::new("sh"), &self.folder);
        command.args(["-e", "-c", text]).envs(&self.variables).stdin(Stdio::null());
        command
    }

    /// Runs a command. One that follows a background command is retried: a person would wait until that has started.
    fn run(&mut self, text: &str) -> anyhow::Result<()> {
        let deadline = Instant::now() + BACKGROUND_TIMEOUT;
        loop {
            let result = execute(&mut self.shell(text));
            match result {
                Err(_) if !self.background.is_empty() && Instant::now() < deadline => {
                    self.check_background()?;
                    thread::sleep(POLL_INTERVAL);
                }
                result => return result,
            }
        }
    }

    fn check_background(&mut self) -> anyhow::Result<()> {
        for Background(child) in &mut self.background {
            if let Some(status) = child.try_wait()? {
                bail!("a background command exited with {status}; see its log in {}", self.workshop.folder.display());
            }
        }
        Ok(())
    }

    fn log(&mut self) -> anyhow::Result<(PathBuf, fs::File)> {
        self.logs += 1;
        let path = self.workshop.folder.join(format!("terminal/{}.log", self.logs));
        let file = fs::File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok((path, file))
    }

    fn spawn(&mut self, text: &str) -> anyhow::Result<(Background, PathBuf)> {
        let (path, file) = self.log()?;
        let mut command = self.shell(text);
        command.stdout(file.try_clone()?).stderr(file).process_group(0);
        Ok((Background(command.spawn().context("cannot run sh")?), path))
    }

    fn start(&mut self, text: &str) -> anyhow::Result<()> {
        let (background, _) = self.spawn(text)?;
        self.background.push(background);
        Ok(())
    }

    fn watch(&mut self, text: &str) -> anyhow::Result<()> {
        let (mut watch, log) = self.spawn(text)?;
        let deadline = Instant::now() + FIRST_LINE_TIMEOUT;
        loop {
            let output = fs::read_to_string(&log)?;
            if let Some(status) = watch.0.try_wait()? {
                bail!("it exited with {status}\n{output}");
            }
            if output.contains('\n') {
                signal("INT", &watch.0);
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "it printed nothing within {} s", FIRST_LINE_TIMEOUT.as_secs());
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn evaluate(&mut self, text: &str) -> anyhow::Result<()> {
        let mut command = self.shell(&format!("{text}\nprintenv KUBECONFIG"));
        let output = command.output().context("cannot run sh")?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "it failed\n{error}");
        let kubeconfig = String::from_utf8(output.stdout).context("KUBECONFIG is not UTF-8")?;
        self.variables.insert("KUBECONFIG", kubeconfig.trim().to_owned());
        Ok(())
    }

    fn change_directory(&mut self, name: &str) -> anyhow::Result<()> {
        let target = match (name, self.parents.get(&self.folder), self.moved.get(name)) {
            ("..", Some(parent), _) => parent.clone(),
            (_, _, Some(moved)) => moved.clone(),
            _ => self.folder.join(name),
        };
        ensure!(target.is_dir(), "there is no directory {}", target.display());
        if self.moved.contains_key(name) {
            self.parents.insert(target.clone(), self.folder.clone());
        }
        self.folder = target;
        Ok(())
    }

    /// Clones this repository, and checks that Cargo can load the packages of the clone: that every manifest, target and
    /// entry of Cargo.lock is committed.
    fn clone_repository(&mut self, name: &str) -> anyhow::Result<()> {
        self.moved.insert(name.to_owned(), PathBuf::from(&self.workshop.root));
        if !Path::new(&self.workshop.root).join(".git").exists() {
            println!("  not typed: {} is not a git repository", self.workshop.root);
            return Ok(());
        }
        let parent = self.workshop.folder.join("terminal/clones");
        fs::create_dir_all(&parent)?;
        let clone = parent.join(name);
        if clone.exists() {
            fs::remove_dir_all(&clone).with_context(|| format!("cannot remove {}", clone.display()))?;
        }
        let mut git = self.workshop.command(Path::new("git"), &parent);
        execute(git.args(["clone", "--quiet", "--shared", &self.workshop.root, name]))?;
        let mut cargo = self.workshop.command(Path::new("cargo"), &clone);
        execute(cargo.args(["tree", "--quiet", "--workspace", "--depth=0", "--offline", "--locked"]))?;
        println!("  typed with the path of this repository instead of the URL: {}", clone.display());
        Ok(())
    }

    /// Checks that the package exists and has the binary `windlass`.
    fn check_install(&self, words: &[String]) -> anyhow::Result<()> {
        let root = Path::new(&self.workshop.root);
        let path = words.iter().position(|word| word == "--path").and_then(|place| words.get(place + 1));
        let folder = match (path, words.last()) {
            (Some(path), _) => self.folder.join(path),
            (None, Some(package)) => root.join("crates").join(package),
            (None, None) => bail!("cargo install needs a package"),
        };
        let file = folder.join("Cargo.toml");
        let manifest = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let has = |line: &str| manifest.lines().any(|other| other.trim() == line);
        ensure!(has("[[bin]]") && has("name = \"windlass\""), "{} does not have the binary windlass", file.display());
        println!(
            "  not typed, because it costs a release build: {} has the program, and {} is on the PATH",
            file.display(),
            self.workshop.windlass.display()
        );
        Ok(())
    }

    /// Creates a project as typed. It must depend on this checkout without being told so.
    fn init(&mut self, name: &str, text: &str) -> anyhow::Result<()> {
        let typed_in = std::mem::replace(&mut self.folder, self.workshop.folder.clone());
        let project = self.workshop.folder.join(name);
        if project.exists() {
            fs::remove_dir_all(&project)?;
        }
        let result = self.run(text);
        self.folder = typed_in;
        result?;
        let manifest = fs::read_to_string(project.join("Cargo.toml"))?;
        let dependency = format!("windlass = {{ path = \"{}/crates/windlass\" }}", self.workshop.root);
        ensure!(manifest.contains(&dependency), "the project does not depend on this checkout:\n{manifest}");
        self.workshop.share(&project)?;
        self.moved.insert(name.to_owned(), project.clone());
        self.project = Some(project);
        Ok(())
    }
}

/// Returns the first command of lines that cannot be typed.
pub(super) fn untypable(lines: &[(usize, String)]) -> Option<String> {
    let segments = lines.iter().flat_map(|(_, line)| segments(line));
    segments.into_iter().find(|segment| classify(segment).is_err()).map(|segment| segment.text)
}

fn needs_kubectl(text: &str) -> bool {
    shell::commands(text).iter().any(|words| words[0] == "kubectl")
}

/// Splits a line at `&&` and `&`, and drops comments.
fn segments(line: &str) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut text = String::new();
    let mut quote = None;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\'' | '"', None) => quote = Some(letter),
            (letter, Some(end)) if letter == end => quote = None,
            ('#', None) if text.is_empty() || text.ends_with(' ') => break,
            ('&', None) => {
                let background = letters.next_if_eq(&'&').is_none();
                segments.push(Segment { text: std::mem::take(&mut text), background });
                continue;
            }
            _ => {}
        }
        text.push(letter);
    }
    segments.push(Segment { text, background: false });
    segments.retain_mut(|segment| {
        segment.text = segment.text.trim().to_owned();
        !segment.text.is_empty()
    });
    segments
}

/// Decides how a segment is typed; fails if it is not known how.
fn classify(segment: &Segment) -> anyhow::Result<Typed> {
    let commands = shell::commands(&segment.text);
    for words in &commands {
        let program = words[0].as_str();
        ensure!(
            KNOWN.contains(&program) || program == ".ci/run",
            "cannot type `{program}`: teach xtask/src/scaffold/terminal.rs how, or show it in a block without a language"
        );
    }
    let words: Vec<&str> = commands.first().into_iter().flatten().map(String::as_str).collect();
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    Ok(match words[..] {
        _ if segment.background => Typed::Background,
        ["cd", folder] => Typed::ChangeDirectory(folder.to_owned()),
        ["eval", ..] => Typed::Evaluate,
        ["git", "clone", .., last] => {
            let name = last.trim_end_matches('/').rsplit('/').next().unwrap_or(last);
            Typed::Clone(name.trim_end_matches(".git").to_owned())
        }
        ["git", ..] => bail!("cannot type `{}`: of git, only clone is known", segment.text),
        ["cargo", "install", ref rest @ ..] => Typed::Install(owned(rest)),
        [".ci/run", ..] | ["cargo", "xtask", ..] | ["cargo", "test", "--workspace", ..] => Typed::ElsewhereInCi,
        ["windlass", "init", name, ..] => Typed::Init(name.to_owned()),
        ["windlass", "run", ref arguments @ ..] => Typed::UntilReady(owned(arguments)),
        ["windlass", "up", ref flags @ ..] if !flags.contains(&"--background") => {
            bail!("`windlass up` does not return: show it with --background or &")
        }
        ["kubectl", .., "-w" | "--watch"] => Typed::Watch,
        _ => Typed::Run,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str) -> Vec<(String, Typed)> {
        let typed = |segment: Segment| {
            let typed = classify(&segment).unwrap();
            (segment.text, typed)
        };
        segments(line).into_iter().map(typed).collect()
    }

    #[test]
    fn lines_are_split_and_classified() {
        let run = |text: &str| (text.to_owned(), Typed::Run);
        for (line, expected) in [
            ("cargo run -- demo", vec![run("cargo run -- demo")]),
            ("# a comment", vec![]),
            (
                "windlass init greeter --domain example.com && cd greeter",
                vec![
                    ("windlass init greeter --domain example.com".to_owned(), Typed::Init("greeter".to_owned())),
                    ("cd greeter".to_owned(), Typed::ChangeDirectory("greeter".to_owned())),
                ],
            ),
            ("cargo run -p foo-operator &", vec![("cargo run -p foo-operator".to_owned(), Typed::Background)]),
            (
                "eval \"$(windlass up --background)\"      # `windlass down` stops it",
                vec![("eval \"$(windlass up --background)\"".to_owned(), Typed::Evaluate)],
            ),
            (
                "kubectl create cronjob hello --schedule='* * && *' && kubectl get jobs -w",
                vec![
                    run("kubectl create cronjob hello --schedule='* * && *'"),
                    ("kubectl get jobs -w".to_owned(), Typed::Watch),
                ],
            ),
            ("cargo run -- manifests | kubectl apply -f -", vec![run("cargo run -- manifests | kubectl apply -f -")]),
            (
                "git clone https://example.com/a/windlass.git",
                vec![("git clone https://example.com/a/windlass.git".to_owned(), Typed::Clone("windlass".to_owned()))],
            ),
            ("cargo test --workspace", vec![("cargo test --workspace".to_owned(), Typed::ElsewhereInCi)]),
            (
                "windlass run --samples    # until Ctrl-C",
                vec![("windlass run --samples".to_owned(), Typed::UntilReady(vec!["--samples".to_owned()]))],
            ),
        ] {
            assert_eq!(typed(line), expected, "{line}");
        }
    }

    #[test]
    fn unknown_programs_are_errors() {
        let lines = ["cargo run &", "kubectl get pods && docker build ."].map(|line| (1, line.to_owned()));
        assert_eq!(untypable(&lines).as_deref(), Some("docker build ."));
        assert_eq!(untypable(&lines[..1]), None);
        for line in ["docker build .", "cargo run | less", "git push", "windlass up", "eval \"$(minikube docker-env)\""]
        {
            let segment = segments(line).remove(0);
            assert!(classify(&segment).is_err(), "{line}");
        }
    }
}
