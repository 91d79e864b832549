// The scripts that shells source. They hold no command: at every TAB they ask `punctual completion words`, so that they
// fit whatever version is installed, and complete ids and names of the server too. What that answers is a value, a tab and
// some words a line; values hold no character that a shell would take for more than itself.

const bash = `# Completion of punctual for bash. Try it:  source <(punctual completion bash)
_punctual() {
  local line word words=()
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD}"; do
    [[ $word == '=' ]] || words+=("$word")
  done
  [[ \${COMP_WORDS[COMP_CWORD]} == '=' ]] && words+=('')
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("\${line%%$'\\t'*}")
  done < <("$1" completion words -- "\${words[@]}" 2>/dev/null)
}
complete -o default -F _punctual punctual
`;

const zsh = `#compdef punctual
# Completion of punctual for zsh. Try it:  source <(punctual completion zsh)
_punctual() {
  local line
  local -a found
  while IFS= read -r line; do
    found+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done < <("\${words[1]}" completion words -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( \${#found} )); then _describe punctual found; else _files; fi
}
if [[ \${funcstack[1]} == _punctual ]]; then _punctual "$@"; else compdef _punctual punctual; fi
`;

const fish = `# Completion of punctual for fish. Try it:  punctual completion fish | source
function __punctual_words
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] completion words -- $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c punctual -f -a '(__punctual_words)'
`;

export const scripts = { bash, zsh, fish } as const;
export type Shell = keyof typeof scripts;
