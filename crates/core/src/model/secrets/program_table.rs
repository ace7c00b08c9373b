//! Programs that accept secrets as arguments without a name that indicates a secret.

/// Position of the secret in the arguments of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecretPlace {
    /// After a flag.
    Flag,
    /// After a flag that can end a cluster of short flags, as in `curl -sSLu me:x`.
    Cluster,
    /// After a flag, with a prefix for the kind of source, such as `pass:x` or `file:x`.
    Source,
    /// After a flag and the user name, as in `me%x`.
    UserAndPassword,
    /// After the name of a setting, as in `git config user.password x`.
    Settings,
    /// After the name of a variable, as in `setenv TOKEN x`.
    Assign,
    /// In the last word, after certain subcommands.
    Subcommand,
    /// In the last word.
    LastWord,
    /// In the last word, if the flag `-b` is present.
    Batch,
    /// In the words that the program prints, if a login reads them from a pipe.
    Echo,
}

/// Programs that accept secrets in one position.
pub(super) struct KnownProgram {
    pub names: &'static [&'static str],
    /// Flags that precede a secret.
    pub flags: &'static [&'static str],
    /// Flags that can be joined with a secret into one word.
    pub glued: &'static [&'static str],
    pub rule: SecretPlace,
}

const fn program(
    names: &'static [&'static str],
    flags: &'static [&'static str],
    glued: &'static [&'static str],
    rule: SecretPlace,
) -> KnownProgram {
    KnownProgram {
        names,
        flags,
        glued,
        rule,
    }
}

/// Known programs. Flags whose names indicate a password, such as `--http-password`, need no entry.
#[rustfmt::skip]
pub(super) const PROGRAMS: [KnownProgram; 24] = [
    program(&["curl"], &["-u", "-U", "--user", "--proxy-user", "--pass", "--proxy-pass", "--oauth2-bearer", "--tlspassword"],
        &["-u", "-U", "--user=", "--proxy-user="], SecretPlace::Cluster),
    program(&["ctr", "nerdctl"], &["-u", "--user"], &["--user="], SecretPlace::Flag),
    program(&["http", "https", "xh"], &["-a", "--auth"], &[], SecretPlace::Flag),
    program(&["lftp", "sftpgo"], &["-u"], &[], SecretPlace::Flag),
    program(&["sshpass"], &["-p"], &["-p"], SecretPlace::Flag),
    program(&["mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlsh", "mariadb", "mariadb-dump", "mariadb-admin"],
        &[], &["-p"], SecretPlace::Flag),
    program(&["mongosh", "mongo", "mongodump", "mongorestore", "mongoexport", "mongoimport", "cqlsh", "rabbitmqadmin", "twine",
        "beeline", "clickhouse-client", "ncftp", "tdsql", "isql"], &["-p"], &[], SecretPlace::Flag),
    program(&["redis-cli", "valkey-cli", "keydb-cli"], &["-a", "--pass"], &[], SecretPlace::Flag),
    program(&["ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami", "ldapcompare"], &["-w"], &["-w"], SecretPlace::Flag),
    program(&["ldappasswd"], &["-w", "-s", "-a"], &["-w"], SecretPlace::Flag),
    program(&["smbclient", "rpcclient", "smbget", "smbmap"], &["-U", "--user"], &["-U", "--user="], SecretPlace::UserAndPassword),
    program(&["openssl"], &["-passin", "-passout", "-pass", "-password", "-passcerts", "-k", "-K"], &[], SecretPlace::Source),
    program(&["sqlcmd", "bcp", "mosquitto_pub", "mosquitto_sub", "ipmitool", "zip", "unzip"], &["-P"], &["-P"], SecretPlace::Flag),
    program(&["7z", "7za", "7zz", "rar", "unrar"], &[], &["-p", "-hp"], SecretPlace::Flag),
    program(&["xfreerdp", "xfreerdp3", "wfreerdp"], &[], &["/p:"], SecretPlace::Flag),
    program(&["keytool", "jarsigner"], &["-new", "-srckeypass", "-destkeypass"], &[], SecretPlace::Flag),
    program(&["ssh-keygen"], &["-N", "-P"], &[], SecretPlace::Flag),
    program(&["snmpwalk", "snmpget", "snmpbulkwalk", "snmpset"], &["-A", "-X", "-c"], &[], SecretPlace::Flag),
    program(&["aws", "git", "npm", "pnpm", "yarn", "pip", "pip3", "poetry", "uv", "conda", "gcloud", "rclone", "dvc", "nmcli", "huggingface-cli", "wandb"], &[], &[], SecretPlace::Settings),
    program(&["setenv"], &[], &[], SecretPlace::Assign),
    program(&["rabbitmqctl", "mc"], &[], &[], SecretPlace::Subcommand),
    program(&["wpa_passphrase"], &[], &[], SecretPlace::LastWord),
    program(&["echo", "printf"], &[], &[], SecretPlace::Echo),
    program(&["htpasswd"], &[], &[], SecretPlace::Batch),
];
/// Programs that accept a key as a plain word after `login`.
#[rustfmt::skip]
pub(super) const KEY_LOGINS: [&str; 19] = [
    "wandb", "weave", "comet", "clearml", "neptune", "swanlab", "hf", "huggingface-cli", "modelscope", "ngc", "npm", "kaggle",
    "vault", "doctl", "replicate", "modal", "lightning", "dvc", "runpodctl",
];
/// Flags of login commands without a value.
pub(super) const LONE_LOGIN_FLAGS: [&str; 5] = [
    "--relogin",
    "--verify",
    "--cloud",
    "--anonymously",
    "--add-to-git-credential",
];
