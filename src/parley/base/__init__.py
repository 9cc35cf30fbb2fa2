"""What every layer uses: text checks, quoting, redaction, output, wording, file names, documents."""
