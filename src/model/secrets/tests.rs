//! Texts with every form of secret, and harmless texts that resemble them.

use super::scrubbed;

#[test]
fn secrets_of_every_form_are_replaced() {
    for text in [
        "train --wandb-key CANARY --epochs 3",
        "train --wandb_key CANARY",
        "train --auth CANARY --passphrase=CANARY --license-key=CANARY --pat CANARY --key CANARY",
        "train --hf-token CANARY --aws-secret-access-key CANARY --ngc-api-key 'CANARY x'",
        "secret: CANARY",
        "the password is CANARY",
        "Password was CANARY, token => CANARY",
        "PASSWORD=CANARY curl https://me:CANARY@host/x",
        "WANDB_KEY=CANARY python train.py",
        "export DB_PW='CANARY with blanks'",
        "curl -u me:CANARY https://host; sshpass -p CANARY ssh host; redis-cli -h host -a CANARY ping",
        "mysql -u root -pCANARY",
        "echo CANARY | docker login --password-stdin",
        "docker login -u me -p CANARY registry.example.com",
        "wandb login --relogin CANARY",
        "wandb login CANARY && train",
        "huggingface-cli login --token CANARY",
        "https://hooks.slack.com/services/T0CANARY/B0CANARY/CANARY",
        "https://discord.com/api/webhooks/1/CANARY",
        "https://open.feishu.cn/open-apis/bot/v2/hook/CANARY",
        "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=CANARY",
        "AIzaCANARY-CANARYCANARYCANARYCANARY",
        "npm_CANARYCANARYCANARYCANARYCANARY",
        "xai-CANARYCANARYCANARYCANARY",
        "sk-CANARYCANARYCANARY",
        "sk-ant-canary-CANARY",
        "sk_live_CANARYCANARY",
        "dckr_pat_CANARYCANARYCANARY",
        "glpat-CANARYCANARYCANARY",
        "xoxb-CANARY-CANARY",
        "https://bucket/x?X-Amz-Credential=CANARY&X-Amz-Signature=CANARY&part=1",
        "https://blob/x?sv=1&sig=CANARY",
        "Authorization: Basic CANARYCANARY==",
        "authorization: Bearer CANARYCANARY",
        "eyJCANARYCANARY.CANARYCANARY.CANARY",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nCANARY\n-----END OPENSSH PRIVATE KEY-----",
        "{\"auths\":{\"r\":{\"auth\":\"CANARY\"}}}",
        "{\\\"password\\\": \\\"CANARY\\\"}",
        "[\"--wandb-key\", \"CANARY\"]",
        "socks5h://user:CANARY/CANARY@127.0.0.1:1",
        "aws_secret_access_key = CANARY",
        "Namespace(hf_token='CANARY', lr=0.1)",
    ] {
        let clean = scrubbed(text).unwrap_or_else(|| panic!("{text}"));
        assert!(!clean.contains("CANARY"), "{text}\n{clean}");
    }
    let bootstrap = "kubeadm join --token abcdef.0123456789abcdef, again abcdef.0123456789abcdef";
    assert!(!scrubbed(bootstrap).unwrap().contains("0123456789"));
}

#[test]
fn everyday_text_is_kept() {
    for text in [
        "volume \"my-secret\" : secret \"hf-token\" not found",
        "registry/token:1.2",
        "0/4 nodes are available: 2 node(s) had untolerated taint {nvidia.com/gpu: present}",
        "key: nvidia.com/gpu",
        "failed to fetch anonymous token: unexpected status from GET https://auth.example.com/token?scope=x: 401",
        "failed to fetch token: serviceaccounts \"x\" not found",
        "throughput: 1523 tokens/s, loss=0.4, max_tokens=4096, eos_token=2",
        "token is invalid; the password is not set",
        "train --sort-key name --tokenizer gpt2 --max-tokens 5 --prompt-key text --token-file /run/t",
        "basic authentication failed",
        "pip install git+https://github.com/org/repo@v1.2",
        "dial http://host:80/a@b",
        "loss 102345.1234567890123456",
        "couldn't find key token in Secret team/hf-token",
        "failed calling webhook \"x\": Post \"https://hook-service.kueue.svc:443/mutate?timeout=10s\"",
        "user login failed",
        "PWD=/workspace HF_HOME=/models python train.py --key /etc/tls/key.pem",
        "password=*** token=[redacted]",
        "train-worker.17b3f4c5d6e7f809",
        "team/sk-learn-training-job-0-abcde on xai-explainer-service-01",
    ] {
        assert_eq!(scrubbed(text), None, "{text}");
    }
    assert_eq!(scrubbed("curl https://me:x1@host/x --epochs 3").as_deref(), Some("curl https://[redacted]@host/x --epochs 3"));
}
