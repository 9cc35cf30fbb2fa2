"""A certificate authority of a test's own: made while the test runs, and trusted where that is told."""

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


class Authority:
    """An authority whose own certificate is `ca`; what it issues lies beside that."""

    def __init__(self, folder: Path, name: str = "tests") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"the authority of {name}")])
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        made = (
            self._begun(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def for_server(self, name: str, *addresses: str) -> tuple[Path, Path]:
        """A server's certificate for its addresses, and its key: two files."""
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address)) for address in addresses])
        return self._issued(name, names, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]))

    def for_client(self, name: str) -> tuple[Path, Path]:
        """A client's certificate, which says its name, and its key: two files."""
        return self._issued(name, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]))

    def _issued(self, name: str, *extensions: x509.ExtensionType) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        begun = self._begun(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key.public_key())
        for extension in extensions:
            begun = begun.add_extension(extension, critical=False)
        certificate, own = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certificate.write_bytes(begun.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        own.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        own.chmod(0o600)
        return certificate, own

    def _begun(self, name: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)  # clocks of hosts may be off
            .not_valid_after(now + day)
        )
