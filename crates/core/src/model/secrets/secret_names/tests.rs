//! Tests which names are recognized as names of secrets.

use super::*;

#[test]
fn secret_names_differ_from_names_about_secrets() {
    for name in [
        "--wandb-key",
        "--wandb_key",
        "--auth",
        "--passphrase",
        "--license-key",
        "--pat",
        "--key",
        "--hf-token",
        "--aws-secret-access-key",
        "--ngc-api-key",
        "NotebookApp.token",
        "PGPASSWORD",
        "clientSecret",
        "DB_PW",
        "TOKEN_1",
        "password2",
        "MASTER_KEY",
        "API_KEYS",
        "--login",
        "hftoken",
        "OPENAI_API_KEY_PROD",
        "HF_TOKENS",
        "--tokens",
        "--secrets",
        "PASSWORDS",
        "COOKIES",
        "APIKEYS",
        "PATS",
        "CREDS",
        "API_TOKENS",
        "passphrases",
        "VAULT_SECRET_ID",
        "--secret-id",
        "role_secret_id",
        "secretId",
        "SECRETID",
        "WANDBKEY",
        "OPENAIKEY",
        "--hfkey",
        "SSHKEY",
        "PGPASS",
        "DBPASS",
        "--dbpass",
        "--userpass",
        "LDAP_BINDPW",
        "MYSQL_ROOTPW",
        "--passkey",
        "PSK",
        "--psk",
        "--sas",
        "pswd",
        "SASTOKEN",
        "ADMINPWD",
        "storepass",
        "SMTPPASS",
        "wpapsk",
        "GITHUBKEY",
        "AZURE_CONNECTIONSTRING",
        "HF_TOKENS_PROD",
        "TOKEN_PROD",
        "TOKENS_1",
    ] {
        assert!(is_secret_name(name), "{name}");
    }
    for name in [
        "--sort-key",
        "--prompt_key",
        "--max-tokens",
        "--eos-token",
        "--token-file",
        "secretName",
        "PWD",
        "OLDPWD",
        "TOKENIZERS_PARALLELISM",
        "SSH_AUTH_SOCK",
        "--author",
        "--num-key-value-heads-size",
        "--pattern",
        "imagePullSecrets",
        "MAX_TOKENS",
        "--keyframe",
        "automount",
        "num_tokens",
        "total_tokens",
        "max_num_batched_tokens",
        "tokens_per_second",
        "prompt_tokens",
        "stop_tokens",
        "imagePullSecret",
        "maxtokens",
        "num_speculative_tokens",
        "SECRET_NAME",
        "client_id",
        "access_key_id",
        "AWS_ACCESS_KEY_ID",
        "secret_ids",
        "bypass",
        "compass",
        "monkey",
        "turkey",
        "hotkey",
        "sortkey",
        "primarykey",
        "pubkey",
        "keepass",
        "forward_pass",
        "lowpass",
        "num_key_value_heads",
        "key_padding_mask",
        "pin_memory",
        "pin_memory_device",
        "sas_address",
        "secret.go",
        "token.py",
        "warmup_passes",
        "pins",
        "tokenizer",
        "TOKENIZERS_PARALLELISM",
        "keyboard",
        "passthrough",
        "TOKENS_PER_STEP",
        "token_per_step",
        "tokensPerGpu",
        "api_tokens_per_minute",
        "tokens_seen",
        "consumed_tokens",
        "mean_token_accuracy",
        "moe_token_dispatcher",
        "--token-drop",
        "api_key_env",
        "secret_store",
        "tlsSecret",
        "password_hash_rounds",
        "process_token_ids",
        "",
        "--",
    ] {
        assert!(!is_secret_name(name), "{name}");
    }
    assert_eq!(strength_of("key"), NameStrength::Weak);
    assert_eq!(strength_of("wandb_key"), NameStrength::Strong);
}

#[test]
fn number_after_tokens_is_a_count() {
    for (name, value) in [
        ("TOKENS", "8388608"),
        ("BATCH_TOKENS", "4194304"),
        ("--tokens", "1,234,567,890"),
        ("tokens", "1.2e9"),
        ("tokens", "'3521.4'"),
        ("token_window", "123456789012"),
        ("tokens", "1.2M"),
    ] {
        assert!(!is_secret_value(strength_of(name), value), "{name} {value}");
        assert!(!holds_secret(name, value), "{name} {value}");
    }
    for (name, value) in [
        ("HF_TOKEN", "8388608"),
        ("HF_TOKEN_1", "8388608"),
        ("PASSWORD_TOKENS", "8388608"),
        ("AUTH_TOKENS", "8388608"),
        ("TOKENS", "x8388608"),
        ("TOKENS", "1234567890123456"),
        ("PASSWORD", "123456"),
    ] {
        assert!(is_secret_value(strength_of(name), value), "{name} {value}");
        assert!(holds_secret(name, value), "{name} {value}");
    }
}

#[test]
fn switches_and_paths_are_not_secrets() {
    assert!(!is_secret_value(NameStrength::Strong, "true"));
    assert!(!is_secret_value(NameStrength::Weak, "/etc/tls/key.pem"));
    assert!(is_secret_value(NameStrength::Strong, "/b64+key"));
    assert!(is_secret_value(NameStrength::Weak, "123456"));
    for secret in [
        "/CANARY+x==",
        "./CANARY",
        "~CANARY",
        "/x",
        "/a/b+c",
        ".CANARY",
    ] {
        assert!(is_secret_value(NameStrength::Weak, secret), "{secret}");
    }
    assert!(!holds_secret("--key", "/etc/tls/key.pem") && !holds_secret("--license", "./x.lic"));
    assert!(!holds_secret("pwd", "/workspace/run") && !holds_secret("--sslkey", "~/client.key"));
    assert!(
        holds_secret("--auth", "/etc/x/y")
            && holds_secret("--pat", "/a/b.txt")
            && !holds_secret("--auth", "off")
    );
}
