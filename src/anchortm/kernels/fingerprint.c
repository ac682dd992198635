/* From which sources the library was made. */

#include "kernels.h"

EXPORT const uint32_t anchortm_fingerprint = ANCHORTM_FINGERPRINT;
