//! Creates a cluster's keys and certificates: a CA, a serving certificate for 127.0.0.1, a client
//! certificate for the aggregation layer, and the key pair that signs service account tokens. The
//! CA is separate because rustls rejects a self-signed serving certificate that is its own CA.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Writes `ca.crt`, `api.{crt,key}`, `front.{crt,key}` and `sa.{key,pub}` into `dir`.
pub fn write(dir: &Path) -> Result<()> {
    let ca_key = KeyPair::generate()?;
    let mut ca = params_for("sandbox-ca", &[])?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let ca_certificate = ca.self_signed(&ca_key)?;
    save(dir, "ca.crt", &ca_certificate.pem())?;
    let issuer = Issuer::new(ca, ca_key);

    let mut api = params_for(
        "kube-apiserver",
        &["127.0.0.1", "localhost", "kubernetes.default.svc"],
    )?;
    api.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    sign(dir, "api", api, &issuer)?;

    let mut front = params_for("front-proxy", &[])?;
    front.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    sign(dir, "front", front, &issuer)?;

    let accounts = KeyPair::generate()?;
    save(dir, "sa.key", &accounts.serialize_pem())?;
    save(dir, "sa.pub", &accounts.public_key_pem())
}

fn params_for(common_name: &str, names: &[&str]) -> Result<CertificateParams> {
    let mut params =
        CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    Ok(params)
}

fn sign(
    dir: &Path,
    name: &str,
    params: CertificateParams,
    issuer: &Issuer<'_, KeyPair>,
) -> Result<()> {
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    save(dir, &format!("{name}.crt"), &certificate.pem())?;
    save(dir, &format!("{name}.key"), &key.serialize_pem())
}

fn save(dir: &Path, name: &str, text: &str) -> Result<()> {
    let path = dir.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}
