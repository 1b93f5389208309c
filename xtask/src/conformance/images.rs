//! The images of the tests as directories, for nodes that run containers as processes.
//!
//! No image is downloaded: agnhost is built from the sources of the tests and listens on the address of its pod, nginx and
//! nautilus are a small server of this program, the aggregated API server and etcd are those of `cargo xtask peers` if they
//! are built, and all other tools are programs of this machine, with the libraries that they need.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;

use crate::peers;

/// The programs that the commands of tests call. Programs that this machine lacks are missing in the images.
const TOOLS: &[&str] = &[
    "[",
    "awk",
    "base64",
    "basename",
    "bash",
    "cat",
    "chmod",
    "chown",
    "cp",
    "curl",
    "cut",
    "date",
    "dd",
    "df",
    "dirname",
    "echo",
    "env",
    "expr",
    "false",
    "find",
    "getent",
    "grep",
    "groups",
    "head",
    "hexdump",
    "hostname",
    "id",
    "kill",
    "ln",
    "ls",
    "mkdir",
    "mktemp",
    "mount",
    "mountpoint",
    "mv",
    "nc",
    "nslookup",
    "pidof",
    "printenv",
    "printf",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "sh",
    "sleep",
    "sort",
    "stat",
    "sync",
    "tail",
    "tee",
    "test",
    "timeout",
    "touch",
    "tr",
    "true",
    "uname",
    "uniq",
    "wc",
    "wget",
    "which",
    "whoami",
    "xargs",
    "yes",
];

/// Directory of nginx's pages.
const PAGES: &str = "/usr/share/nginx/html";

/// Writes the directories and the file that maps images to them; returns the path of the file.
pub(super) fn prepare(peers: &Path, folder: &Path) -> anyhow::Result<String> {
    let agnhost = peers::find(peers, peers::POD_AGNHOST)?;
    let root = std::path::absolute(folder.join("images"))?;
    let _ = fs::remove_dir_all(&root);
    let tools = root.join("busybox");
    tool_box(&tools).context("cannot write the image with tools")?;
    let tests = root.join("agnhost");
    tool_box(&tests).context("cannot write the image of agnhost")?;
    for name in ["agnhost", "agnhost-2"] {
        install(&agnhost, &tests, name)?;
    }
    // The certificate that it serves.
    let files = peers::kubernetes_sources(folder)?.join("test/images/agnhost/porter");
    for name in ["localhost.crt", "localhost.key"] {
        fs::write(tests.join(name), fs::read(files.join(name)).with_context(|| format!("{name} is missing"))?)?;
    }
    let web = root.join("web");
    web_server(&web).context("cannot write the image of the web server")?;
    let server = format!("command: [/web, web, '$(WINDLASS_POD_IP):80', {PAGES}]");
    let entry = |image: &str, root: &Path, command: &str| {
        format!("- image: '*/{image}'\n  root: {}\n  {command}\n", root.display())
    };
    let mut entries = vec![
        entry("agnhost", &tests, "command: [/agnhost]\n  args: [pause]"),
        entry("busybox", &tools, "args: [sh]"),
        entry("nginx", &web, &server),
        entry("nautilus", &web, &server),
    ];
    // The aggregated API server of the tests, and its store.
    for name in ["sample-apiserver", "etcd"] {
        if let Ok(program) = peers::find(peers, name) {
            let own = root.join(name);
            tool_box(&own).with_context(|| format!("cannot write the image of {name}"))?;
            install(&program, &own, &format!("bin/{name}"))?;
            fs::create_dir_all(own.join("usr/local"))?;
            symlink("../../bin", own.join("usr/local/bin"))?;
            entries.push(entry(name, &own, &format!("command: [/bin/{name}]")));
        }
    }
    let file = root.join("images.yaml");
    fs::write(&file, format!("images:\n{}", entries.concat()))?;
    Ok(file.display().to_string())
}

/// Writes a root directory with the stand-in for nginx, which is this program.
fn web_server(root: &Path) -> anyhow::Result<()> {
    tool_box(root)?;
    install(&std::env::current_exe()?, root, "web")?;
    let pages = root.join(PAGES.trim_start_matches('/'));
    fs::create_dir_all(&pages)?;
    fs::write(pages.join("index.html"), "<html><body>Welcome!</body></html>\n")?;
    // What the image `nautilus` serves.
    fs::write(pages.join("data.json"), "{\"image\": \"nautilus.jpg\"}\n")?;
    Ok(())
}

/// Writes a root directory with the tools of this machine.
fn tool_box(root: &Path) -> anyhow::Result<()> {
    for folder in ["bin", "etc", "tmp", "uploads", "root", "var", "run"] {
        fs::create_dir_all(root.join(folder))?;
    }
    fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777))?;
    fs::create_dir_all(root.join("usr"))?;
    symlink("../bin", root.join("usr/bin"))?;
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")?;
    fs::write(root.join("etc/group"), "root:x:0:\n")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    for tool in TOOLS {
        // Unlike dash, bash passes on variables whose names are not identifiers, as the shell of busybox does.
        let program = if *tool == "sh" { "bash" } else { tool };
        let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file());
        if let Some(program) = found {
            install(&program, root, &format!("bin/{tool}"))?;
        }
    }
    Ok(())
}

/// Copies a program and its libraries into a root directory.
fn install(program: &Path, root: &Path, name: &str) -> anyhow::Result<()> {
    copy(program, &root.join(name))?;
    for library in libraries(program)? {
        let target = root.join(library.strip_prefix("/").unwrap_or(&library));
        if !target.exists() {
            fs::create_dir_all(target.parent().context("a library must be in a directory")?)?;
            copy(&library, &target)?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// Returns the libraries that a program needs, by the output of `ldd`. A script or a static program needs none.
fn libraries(program: &Path) -> io::Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output()?;
    Ok(paths(&String::from_utf8_lossy(&output.stdout)))
}

fn paths(output: &str) -> Vec<PathBuf> {
    let words = output.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    words.filter(|word| !word.ends_with(':')).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_the_paths_that_ldd_prints() {
        let output = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n\tlibmissing.so => not found\n";
        let expected = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(paths(output), expected.map(PathBuf::from));
        assert!(paths("\tnot a dynamic executable\n").is_empty());
    }
}
