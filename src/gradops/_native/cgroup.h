// The limits a container puts on this process (Linux control groups, both versions).
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace gradops {

// Reads the start of a small file; false if there is none. `text` ends with a zero.
inline bool read_small_file(const char* path, char* text, std::size_t capacity) {
  std::FILE* file = std::fopen(path, "re");
  if (!file) return false;
  text[std::fread(text, 1, capacity - 1, file)] = '\0';
  std::fclose(file);
  return true;
}

// The number after `key` at the start of a line; `missing` if there is no such line.
inline long long number_after(const char* text, const char* key, long long missing) {
  const std::size_t length = std::strlen(key);
  for (const char* line = text; line; line = std::strchr(line, '\n')) {
    if (*line == '\n') ++line;
    if (std::strncmp(line, key, length) == 0) return std::atoll(line + length);
  }
  return missing;
}

// Whether `name` stands in the comma-separated list [begin, end).
inline bool list_has(const char* begin, const char* end, const char* name) {
  const std::size_t length = std::strlen(name);
  for (const char* entry = begin; entry < end; ++entry) {
    const char* stop = static_cast<const char*>(std::memchr(entry, ',', static_cast<std::size_t>(end - entry)));
    if (!stop) stop = end;
    if (static_cast<std::size_t>(stop - entry) == length && std::strncmp(entry, name, length) == 0) return true;
    entry = stop;
  }
  return false;
}

// Calls visit(directory, version) for every control group this process is in, its own first and
// then each one around it: a limit may be set on any of them. Inside a container the path of
// /proc/self/cgroup may be the host's; then only the last, the container's root, exists.
template <typename Visit>
void for_each_cgroup(const char* controller, Visit&& visit) {
  char text[4096];
  if (!read_small_file("/proc/self/cgroup", text, sizeof text)) return;
  for (char *line = text, *next = nullptr; line && *line; line = next) {
    next = std::strchr(line, '\n');
    if (next) *next++ = '\0';
    const char* list = std::strchr(line, ':');  // "hierarchy:controllers:path"
    const char* path = list ? std::strchr(list + 1, ':') : nullptr;
    if (!path) continue;
    const bool unified = path == list + 1;
    if (!unified && !list_has(list + 1, path, controller)) continue;
    char directory[1024];
    const int root = std::snprintf(directory, sizeof directory, "/sys/fs/cgroup%s%s", unified ? "" : "/",
                                   unified ? "" : controller);
    const int length = std::snprintf(directory + root, sizeof directory - static_cast<std::size_t>(root), "%s", path + 1);
    if (root + length >= static_cast<int>(sizeof directory)) continue;
    for (char* end = directory + root + length;;) {
      *end = '\0';
      if (end[-1] != '/') visit(static_cast<const char*>(directory), unified ? 2 : 1);
      if (end <= directory + root) break;
      do --end; while (end > directory + root && *end != '/');
    }
  }
}

// A file of a control group; false if there is none.
inline bool read_cgroup_file(const char* directory, const char* name, char* text, std::size_t capacity) {
  char path[1280];
  std::snprintf(path, sizeof path, "%s/%s", directory, name);
  return read_small_file(path, text, capacity);
}

}  // namespace gradops
