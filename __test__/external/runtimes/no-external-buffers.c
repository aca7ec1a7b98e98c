// Makes the creation of external buffers fail in this process, as it does in Electron, whose V8 keeps all buffers in a
// memory cage. The two functions of Node-API that create them are overwritten: that reaches every addon, whereas the
// dynamic linker finds a function of the executable before one of any library, preloaded or not.

#define NAPI_VERSION 8
#define _GNU_SOURCE
#include <dlfcn.h>
#include <node_api.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint32_t refusals = 0;

static napi_status refuse(void) {
  __atomic_add_fetch(&refusals, 1, __ATOMIC_RELAXED);
  return napi_no_external_buffers_allowed;
}

// Writes a jump to `refuse` over the beginning of a function.
static int overwrite(const char *name) {
  unsigned char *function = dlsym(RTLD_DEFAULT, name);
  if (function == NULL) {
    return 0;
  }
  uint64_t target = (uint64_t)(uintptr_t)refuse;
#if defined(__x86_64__)
  unsigned char code[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0}; // mov rax, target; jmp rax
  memcpy(code + 2, &target, sizeof target);
#elif defined(__aarch64__)
  unsigned char code[16] = {0x50, 0, 0, 0x58, 0, 0x02, 0x1f, 0xd6}; // ldr x16, target; br x16
  memcpy(code + 8, &target, sizeof target);
#else
#error "no jump is known for this processor"
#endif
  uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t first = (uintptr_t)function & ~(page_size - 1);
  size_t length = (uintptr_t)function + sizeof code - first;
  if (mprotect((void *)first, length, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
    return 0;
  }
  memcpy(function, code, sizeof code);
  __builtin___clear_cache((char *)function, (char *)function + sizeof code);
  return mprotect((void *)first, length, PROT_READ | PROT_EXEC) == 0;
}

// forbid() -> whether both functions were overwritten
static napi_value forbid(napi_env env, napi_callback_info info) {
  (void)info;
  napi_value result;
  int done = overwrite("napi_create_external_arraybuffer") && overwrite("napi_create_external_buffer");
  napi_get_boolean(env, done, &result);
  return result;
}

// count() -> how often one was refused
static napi_value count(napi_env env, napi_callback_info info) {
  (void)info;
  napi_value result;
  napi_create_uint32(env, __atomic_load_n(&refusals, __ATOMIC_RELAXED), &result);
  return result;
}

static unsigned char memory[16];

// create() -> the statuses of creating an external ArrayBuffer and an external Buffer
static napi_value create(napi_env env, napi_callback_info info) {
  (void)info;
  napi_value unused, number, result;
  napi_status statuses[2] = {
      napi_create_external_arraybuffer(env, memory, 8, NULL, NULL, &unused),
      napi_create_external_buffer(env, 8, memory + 8, NULL, NULL, &unused),
  };
  napi_create_array(env, &result);
  for (uint32_t i = 0; i < 2; i++) {
    napi_create_uint32(env, statuses[i], &number);
    napi_set_element(env, result, i, number);
  }
  return result;
}

NAPI_MODULE_INIT() {
  napi_property_descriptor functions[] = {
      {"forbid", NULL, forbid, NULL, NULL, NULL, napi_default, NULL},
      {"count", NULL, count, NULL, NULL, NULL, napi_default, NULL},
      {"create", NULL, create, NULL, NULL, NULL, napi_default, NULL},
  };
  napi_define_properties(env, exports, sizeof functions / sizeof *functions, functions);
  return exports;
}
