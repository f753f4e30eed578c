//! `edge-demo certificate`: a certificate authority that signs one server certificate and is
//! forgotten. For demos only: nothing about it can be renewed or revoked.

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Writes `ca.pem`, `server.pem` and `server.key` into a directory.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Where to write.
    #[arg(long)]
    directory: PathBuf,
    /// Host names and addresses that the certificate is good for.
    #[arg(required = true)]
    names: Vec<String>,
}

/// Makes the files.
///
/// # Errors
/// When a name cannot stand in a certificate, or the folder or a file cannot be made.
pub(crate) fn main(options: &Options) -> anyhow::Result<ExitCode> {
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::new([])?;
    let name = &mut authority.distinguished_name;
    name.push(DnType::CommonName, "edge demo authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_certificate = authority.self_signed(&authority_key)?;
    let issuer = Issuer::new(authority, authority_key);

    let server_key = KeyPair::generate()?;
    let mut server = CertificateParams::new(options.names.clone())?;
    let name = &mut server.distinguished_name;
    name.push(DnType::CommonName, "edge demo");
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // RFC 5280 section 4.2.1.1; Python's ssl refuses a leaf without it.
    server.use_authority_key_identifier_extension = true;
    let server_certificate = server.signed_by(&server_key, &issuer)?;

    let directory = &options.directory;
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the folder {}", directory.display()))?;
    write(&directory.join("ca.pem"), &authority_certificate.pem())?;
    write(&directory.join("server.pem"), &server_certificate.pem())?;
    write(&directory.join("server.key"), &server_key.serialize_pem())?;
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    (options.open(path))
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}
