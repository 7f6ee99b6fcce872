"""Which language a file is in, judged by its name alone."""

from __future__ import annotations

from functools import lru_cache

_BY_SUFFIX = {
    "Assembly": "asm s",
    "Batch": "bat cmd",
    "C": "c h",
    "C#": "cs csx",
    "C++": "cc cpp cxx hh hpp hxx",
    "Clojure": "clj cljs cljc edn",
    "Configuration": "cfg conf ini properties env",
    "CSS": "css less sass scss",
    "CSV": "csv tsv",
    "Cython": "pyx pxd pxi",
    "Dart": "dart",
    "Elixir": "ex exs",
    "Erlang": "erl hrl",
    "Fortran": "f f90 f95",
    "Go": "go",
    "Haskell": "hs lhs",
    "HTML": "htm html xhtml",
    "Image": "bmp gif ico jpeg jpg png svg tif tiff webp",
    "Java": "java",
    "JavaScript": "cjs js jsx mjs",
    "JSON": "json jsonl json5 ndjson",
    "Julia": "jl",
    "Jupyter": "ipynb",
    "Kotlin": "kt kts",
    "Lisp": "el lisp scm",
    "Lua": "lua",
    "Markdown": "markdown md mdx",
    "Nix": "nix",
    "Objective-C": "m mm",
    "OCaml": "ml mli",
    "Perl": "pl pm",
    "PHP": "php",
    "PowerShell": "ps1 psm1",
    "Protocol Buffers": "proto",
    "Python": "py pyi pyw",
    "R": "r rmd",
    "reStructuredText": "rst",
    "Ruby": "gemspec rake rb",
    "Rust": "rs",
    "Scala": "sbt scala",
    "Shell": "bash fish ksh sh zsh",
    "SQL": "sql",
    "Svelte": "svelte",
    "Swift": "swift",
    "Template": "j2 jinja jinja2 tmpl",
    "Terraform": "tf tfvars",
    "TeX": "bib cls sty tex",
    "Text": "log text txt",
    "TOML": "toml",
    "TypeScript": "cts mts ts tsx",
    "Vue": "vue",
    "XML": "xml xsd xsl",
    "YAML": "yaml yml",
    "Zig": "zig",
}

_BY_NAME = {
    "cmakelists.txt": "CMake",
    "containerfile": "Dockerfile",
    "dockerfile": "Dockerfile",
    "gemfile": "Ruby",
    "gnumakefile": "Make",
    "jenkinsfile": "Groovy",
    "makefile": "Make",
    "rakefile": "Ruby",
}

_LANGUAGE = {
    suffix: language for language, suffixes in _BY_SUFFIX.items() for suffix in suffixes.split()
}

# What a person may call a language, besides its name and its suffixes.
_CALLED = {
    "docker": "Dockerfile",
    "golang": "Go",
    "images": "Image",
    "makefiles": "Make",
    "notebooks": "Jupyter",
    "pictures": "Image",
    "restructuredtext": "reStructuredText",
    "stylesheets": "CSS",
}

OTHER = "Other"


@lru_cache(maxsize=4096)
def _of_suffix(suffix: str) -> str:
    return _LANGUAGE.get(suffix, OTHER)


def language_of(path: str) -> str:
    """Return the language of a path, `Other` where its name does not tell."""
    name = path.rpartition("/")[2].lower()
    named = _BY_NAME.get(name)
    if named is not None:
        return named
    stem, dot, suffix = name.rpartition(".")
    return _of_suffix(suffix) if dot and stem else OTHER


def language_called(word: str) -> str | None:
    """Return the language that a person means by `word`, or None.

    A name (`Python`, in any case), another word for it (`golang`) or a suffix without its dot
    (`py`); of suffixes only those of two letters and more, since `c` is a name and `m` is nobody's.
    """
    lowered = word.lower()
    for language in (*_BY_SUFFIX, *_BY_NAME.values()):
        if language.lower() == lowered:
            return language
    if lowered in _CALLED:
        return _CALLED[lowered]
    return _LANGUAGE.get(lowered) if len(lowered) > 1 else None
