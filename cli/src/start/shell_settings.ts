// From the configuration to what the isolation of programs is made from. Used by `punctual worker` and `punctual doctor`.
import type { Config } from '@punctual/server/config';
import type { ShellSettings } from '@punctual/worker';

export function shellSettings(config: Config): ShellSettings {
  return {
    user: config.shell_user,
    cgroup: config.shell_cgroup,
    limits: {
      memory_mb: config.shell_memory_mb,
      cpu_seconds: config.shell_cpu_seconds,
      processes: config.shell_processes,
      open_files: config.shell_open_files,
      file_mb: config.shell_file_mb,
      output_mb: config.shell_output_mb,
    },
  };
}
