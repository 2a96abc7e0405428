"""The code that all pipelines share: options, plan, report, progress, state directory and job.

Entry point: `frame.run`.
"""
