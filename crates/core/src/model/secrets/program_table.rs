//! Lists programs with secrets at places that no name announces.

/// How a program takes its secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// After a flag.
    Flag,
    /// After a flag that can end a group of short flags: `curl -sSLu me:x`.
    Cluster,
    /// After a flag, with the kind of source before it: `pass:x`, `file:x`.
    Source,
    /// After a flag, behind the user: `me%x`.
    UserAndPassword,
    /// After the name of a setting: `git config user.password x`.
    Settings,
    /// After the name of a variable: `setenv TOKEN x`.
    Assign,
    /// The last word, after certain subcommands.
    Subcommand,
    /// The last word.
    LastWord,
    /// The last word, with the flag `-b`.
    Batch,
    /// The words, if a login reads what the program prints.
    Echo,
}

/// Programs and their secrets.
pub(super) struct Program {
    pub names: &'static [&'static str],
    /// Flags before a secret.
    pub flags: &'static [&'static str],
    /// Flags that are glued to a secret.
    pub glued: &'static [&'static str],
    pub rule: Rule,
}

const fn program(
    names: &'static [&'static str],
    flags: &'static [&'static str],
    glued: &'static [&'static str],
    rule: Rule,
) -> Program {
    Program {
        names,
        flags,
        glued,
        rule,
    }
}

/// The programs. Names of passwords, such as `--http-password`, need no entry.
#[rustfmt::skip]
pub(super) const PROGRAMS: [Program; 24] = [
    program(&["curl"], &["-u", "-U", "--user", "--proxy-user", "--pass", "--proxy-pass", "--oauth2-bearer", "--tlspassword"],
        &["-u", "-U", "--user=", "--proxy-user="], Rule::Cluster),
    program(&["ctr", "nerdctl"], &["-u", "--user"], &["--user="], Rule::Flag),
    program(&["http", "https", "xh"], &["-a", "--auth"], &[], Rule::Flag),
    program(&["lftp", "sftpgo"], &["-u"], &[], Rule::Flag),
    program(&["sshpass"], &["-p"], &["-p"], Rule::Flag),
    program(&["mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlsh", "mariadb", "mariadb-dump", "mariadb-admin"],
        &[], &["-p"], Rule::Flag),
    program(&["mongosh", "mongo", "mongodump", "mongorestore", "mongoexport", "mongoimport", "cqlsh", "rabbitmqadmin", "twine",
        "beeline", "clickhouse-client", "ncftp", "tdsql", "isql"], &["-p"], &[], Rule::Flag),
    program(&["redis-cli", "valkey-cli", "keydb-cli"], &["-a", "--pass"], &[], Rule::Flag),
    program(&["ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami", "ldapcompare"], &["-w"], &["-w"], Rule::Flag),
    program(&["ldappasswd"], &["-w", "-s", "-a"], &["-w"], Rule::Flag),
    program(&["smbclient", "rpcclient", "smbget", "smbmap"], &["-U", "--user"], &["-U", "--user="], Rule::UserAndPassword),
    program(&["openssl"], &["-passin", "-passout", "-pass", "-password", "-passcerts", "-k", "-K"], &[], Rule::Source),
    program(&["sqlcmd", "bcp", "mosquitto_pub", "mosquitto_sub", "ipmitool", "zip", "unzip"], &["-P"], &["-P"], Rule::Flag),
    program(&["7z", "7za", "7zz", "rar", "unrar"], &[], &["-p", "-hp"], Rule::Flag),
    program(&["xfreerdp", "xfreerdp3", "wfreerdp"], &[], &["/p:"], Rule::Flag),
    program(&["keytool", "jarsigner"], &["-new", "-srckeypass", "-destkeypass"], &[], Rule::Flag),
    program(&["ssh-keygen"], &["-N", "-P"], &[], Rule::Flag),
    program(&["snmpwalk", "snmpget", "snmpbulkwalk", "snmpset"], &["-A", "-X", "-c"], &[], Rule::Flag),
    program(&["aws", "git", "npm", "pnpm", "yarn", "pip", "pip3", "poetry", "uv", "conda", "gcloud", "rclone", "dvc", "nmcli", "huggingface-cli", "wandb"], &[], &[], Rule::Settings),
    program(&["setenv"], &[], &[], Rule::Assign),
    program(&["rabbitmqctl", "mc"], &[], &[], Rule::Subcommand),
    program(&["wpa_passphrase"], &[], &[], Rule::LastWord),
    program(&["echo", "printf"], &[], &[], Rule::Echo),
    program(&["htpasswd"], &[], &[], Rule::Batch),
];
/// Programs that accept a key as a bare word after `login`.
#[rustfmt::skip]
pub(super) const KEY_LOGINS: [&str; 19] = [
    "wandb", "weave", "comet", "clearml", "neptune", "swanlab", "hf", "huggingface-cli", "modelscope", "ngc", "npm", "kaggle",
    "vault", "doctl", "replicate", "modal", "lightning", "dvc", "runpodctl",
];
/// Flags of logins without a value.
pub(super) const LONE_LOGIN_FLAGS: [&str; 5] = [
    "--relogin",
    "--verify",
    "--cloud",
    "--anonymously",
    "--add-to-git-credential",
];
