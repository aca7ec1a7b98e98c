//! The memory of a Linux machine, and the limits of the control groups that this process is in: its own, and all groups
//! above it that its mounts show. A container sees its own group as the root, or the whole tree of the machine.
//!
//! The quota of processors needs nothing of this: [`std::thread::available_parallelism`] reads it from the same tree.

use std::path::{Component, Path, PathBuf};

/// The files of a group that hold limits in bytes. Above `memory.high`, processes are slowed down until they hardly run.
const FILES: [&str; 2] = ["memory.max", "memory.high"];

/// The file of a group of the first version.
const FIRST_FILES: [&str; 1] = ["memory.limit_in_bytes"];

/// The physical memory and the limits of groups in bytes, as far as the system tells.
pub fn limits() -> Vec<u64> {
    // Other mounts may have names of any bytes.
    limits_in(|path| Some(String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned()))
}

/// The same, with the contents of files from `read`.
fn limits_in(read: impl Fn(&Path) -> Option<String>) -> Vec<u64> {
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| total(&text));
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let mounts = read(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    let limits = places(&groups, &mounts).into_iter().filter_map(|path| {
        // `max` means none.
        read(&path)?.trim().parse().ok()
    });
    machine.into_iter().chain(limits).collect()
}

/// The bytes of physical memory in `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The files that may hold limits, from `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn places(groups: &str, mounts: &str) -> Vec<PathBuf> {
    let mut places = Vec::new();
    for Mount { root, point, is_first } in mounts.lines().filter_map(Mount::parse) {
        let Some(group) = groups.lines().find_map(|line| group(line, is_first)) else { continue };
        let files = if is_first { &FIRST_FILES[..] } else { &FILES[..] };
        let within = match Path::new(group).strip_prefix(&root) {
            Ok(within) => within,
            // The mount begins above the root that this process sees.
            Err(_) if is_above(&root) => Path::new(""),
            // It shows other groups.
            Err(_) => continue,
        };
        if !goes_up(within) {
            let folders = within.ancestors().map(|folder| point.join(folder));
            places.extend(folders.flat_map(|folder| files.iter().map(move |file| folder.join(file))));
        }
    }
    places
}

/// The path of the group in a line of `/proc/self/cgroup`, if it is of the first version and limits memory, or of the
/// second.
fn group(line: &str, is_first: bool) -> Option<&str> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next()?, fields.next()?);
    let fits = if is_first { controllers.split(',').any(|name| name == "memory") } else { controllers.is_empty() };
    fits.then_some(path)
}

/// Whether `root` consists of steps up only: `/../other` shows a group beside ours.
fn is_above(root: &Path) -> bool {
    root.components().all(|part| matches!(part, Component::RootDir | Component::ParentDir))
}

fn goes_up(path: &Path) -> bool {
    path.components().any(|component| component == Component::ParentDir)
}

/// A mounted tree of groups.
struct Mount {
    /// The group that is mounted.
    root: PathBuf,
    point: PathBuf,
    /// Whether the tree is of the first version, which has one per controller.
    is_first: bool,
}

impl Mount {
    /// Reads a line of `/proc/self/mountinfo`, if it is a tree of groups that may limit memory.
    fn parse(line: &str) -> Option<Mount> {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let is_first = match (system.next()?, system.nth(1)) {
            ("cgroup2", _) => false,
            ("cgroup", Some(options)) if options.split(',').any(|name| name == "memory") => true,
            _ => return None,
        };
        let mut mount = mount.split(' ').skip(3).map(unescaped);
        Some(Mount { root: mount.next()?, point: mount.next()?, is_first })
    }
}

/// A path of `/proc/self/mountinfo`, where spaces, tabs, line breaks and backslashes are octal.
fn unescaped(path: &str) -> PathBuf {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(path.to_string(), |path, (escape, plain)| path.replace(escape, plain)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// The least limit with these files and this much memory.
    fn least(groups: &str, mounts: &str, files: &[(&str, &str)]) -> u64 {
        let meminfo = "MemTotal:       65536000 kB\nMemFree:         1000000 kB\nSwapTotal:             0 kB\n";
        let texts = [("/proc/meminfo", meminfo), ("/proc/self/cgroup", groups), ("/proc/self/mountinfo", mounts)];
        let read = |path: &Path| {
            let texts = texts.iter().chain(files);
            texts.into_iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| text.to_string())
        };
        limits_in(read).into_iter().min().unwrap()
    }

    const MACHINE: u64 = 65_536_000 * 1024;

    /// A desktop or server with systemd.
    const SYSTEMD: &str = "\
22 28 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:13 - proc proc rw
28 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
33 23 0:28 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
";

    #[test]
    fn a_process_without_limits_has_the_machine() {
        let folder = "/sys/fs/cgroup/user.slice";
        let unlimited = [(&*format!("{folder}/memory.max"), "max\n"), (&*format!("{folder}/memory.high"), "max\n")];
        assert_eq!(least("0::/user.slice\n", SYSTEMD, &unlimited), MACHINE);
        assert_eq!(least("0::/\n", SYSTEMD, &[]), MACHINE);
        assert_eq!(least("", "", &[]), MACHINE);
        assert!(limits_in(|_| None).is_empty());
    }

    #[test]
    fn the_least_limit_of_a_service_a_scope_and_all_slices_around_it_counts() {
        let groups = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-node-4711.scope\n";
        let user = "/sys/fs/cgroup/user.slice/user-1000.slice";
        let scope = format!("{user}/user@1000.service/app.slice/app-node-4711.scope/memory.max");
        let with = |files: &[(&str, &str)]| {
            let own = [(&*scope, "8589934592\n"), ("/sys/fs/cgroup/memory.max", "1\n")];
            least(groups, SYSTEMD, &[&own[..1], files].concat())
        };
        assert_eq!(with(&[]), 8 * GIB);
        assert_eq!(with(&[(&format!("{user}/memory.max"), "4294967296\n")]), 4 * GIB);
        assert_eq!(with(&[(&format!("{user}/user@1000.service/memory.high"), "2147483648\n")]), 2 * GIB);
        assert_eq!(with(&[("/sys/fs/cgroup/user.slice/memory.max", "1073741824\n")]), GIB);
        // Those of other groups do not.
        assert_eq!(with(&[("/sys/fs/cgroup/user.slice/user-1001.slice/memory.max", "4096\n")]), 8 * GIB);
        // A group that was removed while the process is in it.
        let deleted = "0::/system.slice/worker.service (deleted)\n";
        assert_eq!(least(deleted, SYSTEMD, &[("/sys/fs/cgroup/system.slice/memory.max", "1073741824\n")]), GIB);
    }

    #[test]
    fn containers_see_their_own_group_as_the_root() {
        // Docker and Kubernetes on the second version.
        let mounts = "\
1127 1126 0:28 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate,memory_recursiveprot
1128 1126 0:180 / /dev/mqueue rw,nosuid,nodev,noexec,relatime - mqueue mqueue rw
";
        assert_eq!(least("0::/\n", mounts, &[("/sys/fs/cgroup/memory.max", "536870912\n")]), GIB / 2);
        // The same, with a group of its own below.
        let inner = [("/sys/fs/cgroup/memory.max", "max\n"), ("/sys/fs/cgroup/init/memory.max", "268435456\n")];
        assert_eq!(least("0::/init\n", mounts, &inner), GIB / 4);
        // A mount that was made before the container got a root of its own: it begins above it.
        let above = mounts.replace("0:28 / ", "0:28 /../.. ");
        assert_eq!(least("0::/\n", &above, &[("/sys/fs/cgroup/memory.max", "536870912\n")]), GIB / 2);
        // A process outside of the container's groups.
        assert_eq!(least("0::/../other\n", mounts, &[("/sys/fs/cgroup/memory.max", "536870912\n")]), MACHINE);
    }

    #[test]
    fn containers_see_their_own_group_by_its_name_on_the_machine() {
        let group =
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod5c1f.slice/cri-containerd-9e0c.scope";
        let groups =
            format!("12:cpuset:{group}\n11:pids:{group}\n4:cpu,cpuacct:{group}\n3:memory:{group}\n0::{group}\n");
        let mounts = format!(
            "\
2171 2170 0:132 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime - tmpfs tmpfs rw,mode=755
2175 2171 0:32 {group} /sys/fs/cgroup/cpu,cpuacct ro,nosuid,nodev,noexec,relatime master:15 - cgroup cgroup rw,cpu,cpuacct
2180 2171 0:37 {group} /sys/fs/cgroup/memory ro,nosuid,nodev,noexec,relatime master:20 - cgroup cgroup rw,memory
"
        );
        let limit = [("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n")];
        assert_eq!(least(&groups, &mounts, &limit), GIB);
        // Of the second version.
        let mounts = format!("40 30 0:28 {group} /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
        assert_eq!(least(&groups, &mounts, &[("/sys/fs/cgroup/memory.max", "1073741824\n")]), GIB);
        // A mount of another container's group.
        let mounts = "40 30 0:28 /docker/b /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(least(&groups, mounts, &[("/sys/fs/cgroup/memory.max", "4096\n")]), MACHINE);
        // The tree of the machine under another path, without the folders in between.
        let mounts = "40 30 0:28 / /host\\040tree ro - cgroup2 cgroup rw\n";
        let slice = "/host tree/kubepods.slice/kubepods-burstable.slice/memory.max";
        assert_eq!(least(&groups, mounts, &[(slice, "2147483648\n")]), 2 * GIB);
    }

    #[test]
    fn systems_with_both_versions_limit_memory_in_the_first() {
        let groups = "\
12:pids:/user.slice/user-0.slice/session-3.scope
9:memory:/system.slice/batch.slice/job.service
1:name=systemd:/user.slice/user-0.slice/session-3.scope
0::/user.slice/user-0.slice/session-3.scope
";
        let mounts = "\
31 23 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:9 - tmpfs tmpfs ro,mode=755
32 31 0:27 / /sys/fs/cgroup/unified rw,nosuid,nodev,noexec,relatime shared:10 - cgroup2 cgroup2 rw,nsdelegate
33 31 0:28 / /sys/fs/cgroup/systemd rw,nosuid,nodev,noexec,relatime shared:11 - cgroup cgroup rw,xattr,name=systemd
37 31 0:33 / /sys/fs/cgroup/memory rw,nosuid,nodev,noexec,relatime shared:16 - cgroup cgroup rw,memory
";
        let slice = "/sys/fs/cgroup/memory/system.slice/batch.slice";
        let none = "9223372036854771712\n";
        let (own, outer) =
            (format!("{slice}/job.service/memory.limit_in_bytes"), format!("{slice}/memory.limit_in_bytes"));
        assert_eq!(least(groups, mounts, &[(&own, none)]), MACHINE);
        assert_eq!(least(groups, mounts, &[(&own, none), (&outer, "3221225472\n")]), 3 * GIB);
        assert_eq!(least(groups, mounts, &[(&own, "1073741824\n"), (&outer, "3221225472\n")]), GIB);
    }
}
