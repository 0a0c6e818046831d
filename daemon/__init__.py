"""The background process: drives SGLang, keeps the journals, obeys commands. Imports only `contracts` of ours."""
