"""The escapes that are tried in the very cage before an agent gets it.

Each attempt really tries what its sentence says. It returns what it reached, in a few words, or nothing where it was
held; an OSError means that it was held. What can only be judged from outside (a file that a write left, a message
that arrived) is looked for there, by canary.py.
"""

from parley.adapters.boundary import on_files, on_kernel, on_network, on_processes

ATTEMPTS = (
    on_files.read_outside,
    on_files.climb,
    on_files.follow_link,
    on_files.through_process,
    on_files.hard_link,
    on_files.rename_in,
    on_files.change_outside,
    on_files.list_around,
    on_files.real_home,
    on_files.write_beside,
    on_files.write_system,
    on_files.write_sealed,
    on_files.shared_repository,
    on_files.devices,
    on_files.system_settings,
    on_files.system_request,
    on_files.second_wall,
    on_files.file_handle,
    on_processes.other_processes,
    on_processes.environment,
    on_processes.descriptors,
    on_processes.signal_outside,
    on_processes.trace,
    on_processes.steal_descriptor,
    on_processes.outlive,
    on_network.abstract_socket,
    on_network.path_socket,
    on_network.tcp,
    on_network.udp,
    on_network.interfaces,
    on_network.socket_families,
    on_network.unlisted_host,
    on_kernel.user_namespace,
    on_kernel.other_namespaces,
    on_kernel.enter_namespace,
    on_kernel.mount,
    on_kernel.chroot,
    on_kernel.capabilities,
    on_kernel.become_root,
    on_kernel.filtered,
    on_kernel.keyring,
    on_kernel.io_uring,
    on_kernel.kernel_programs,
    on_kernel.kernel,
    on_kernel.hostname,
    on_kernel.personality,
    on_kernel.shared_memory,
    on_kernel.terminal,
)
