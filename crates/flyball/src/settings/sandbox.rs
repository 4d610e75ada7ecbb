//! The table of settings of who workers become, and of what they may do.

use flyball_arch::{SandboxMode, Settings, Violation};

use super::kind::Kind;
use super::table::{Flag, Setting, Task, Word};
use super::text::is_token;

/// The settings.
pub(super) const ROWS: &[Setting] = &[
    Setting {
        key: "user",
        task: Task::Safety,
        flag: Some(Flag { name: "user", value: "NAME" }),
        kind: Kind::Text {
            form: "the name or number of a user",
            valid: is_token,
            set: |s, name| s.sandbox.user = Some(name),
        },
        word: Some(Word { name: "auto", set: |s| s.sandbox.user = None }),
        default: Some("auto"),
        doc: "User that the workers run as",
        more: "With `auto`, if the superuser starts the server with a configuration file, it is \
               `flyball` if there is such a user, else `www-data`, else `nobody`; in all other \
               cases the workers keep the user that started the server. They give up all other \
               groups. The user must be able to enter every root.",
        source: "setresuid(2), setgroups(2)",
        ..Setting::ROW
    },
    Setting {
        key: "group",
        task: Task::Safety,
        kind: Kind::Text {
            form: "the name or number of a group",
            valid: is_token,
            set: |s, name| s.sandbox.group = Some(name),
        },
        word: Some(Word { name: "auto", set: |s| s.sandbox.group = None }),
        default: Some("auto"),
        doc: "Group that the workers run as",
        more: "`auto` is the group of `user`.",
        ..Setting::ROW
    },
    Setting {
        key: "sandbox",
        task: Task::Safety,
        flag: Some(Flag { name: "sandbox", value: "required|on|off" }),
        kind: Kind::OneOf {
            names: &[
                Word { name: "required", set: |s| s.sandbox.mode = SandboxMode::Required },
                Word { name: "on", set: |s| s.sandbox.mode = SandboxMode::On },
                Word { name: "off", set: |s| s.sandbox.mode = SandboxMode::Off },
            ],
        },
        default: Some("on"),
        doc: "Whether the processes of the server give up rights they do not need",
        more: "They give up capabilities, files except those beneath the roots (landlock), system \
               calls that the architecture does not make (seccomp), and operations of rings. With \
               `on`, the server reports what the kernel lacks and runs without it; with \
               `required`, it does not start then. `off` only changes the user. See \
               docs/security.md.",
        source: "landlock(7), seccomp(2), io_uring_register(2)",
        ..Setting::ROW
    },
    Setting {
        key: "sandbox-calls",
        task: Task::Safety,
        kind: Kind::OneOf {
            names: &[
                Word {
                    name: "refuse",
                    set: |s| s.sandbox.forbidden_call = Some(Violation::Refuse),
                },
                Word { name: "kill", set: |s| s.sandbox.forbidden_call = Some(Violation::Kill) },
            ],
        },
        word: Some(Word { name: "auto", set: |s| s.sandbox.forbidden_call = None }),
        default: Some("auto"),
        doc: "What happens at a system call that is not allowed",
        more: "`refuse`: it fails with EPERM. `kill`: SIGSYS ends the process, and the master \
               starts another. The kernel logs both. `auto` is `refuse`, and in development builds \
               `kill`.",
        source: "seccomp(2)",
        ..Setting::ROW
    },
    Setting {
        key: "sandbox-read",
        task: Task::Safety,
        kind: Kind::Texts {
            form: "an absolute path such as /srv/shared",
            empty: true,
            valid: |path| path.starts_with('/'),
            set: |s: &mut Settings, paths| {
                s.sandbox.read = paths.into_iter().map(Into::into).collect();
            },
        },
        word: Some(Word { name: "none", set: |s| s.sandbox.read.clear() }),
        default: Some("none"),
        doc: "More directories and files that workers may read",
        more: "Only for links that lead out of a root, if `symlinks` is \"follow\". If none is \
               named, the workers of such a site may read whatever their user may.",
        source: "landlock(7)",
        ..Setting::ROW
    },
];
