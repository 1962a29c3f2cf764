import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

const onlyBelow = (...patterns) => ({
  '@typescript-eslint/no-restricted-imports': ['error', { patterns: patterns.map(regex => ({ regex })) }]
});

export default defineConfig(
  { ignores: ['lib/', 'node_modules/'] },
  {
    files: ['src/**/*.ts', 'test/**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: {
      parserOptions: { project: './tsconfig.test.json', tsconfigRootDir: import.meta.dirname }
    },
    rules: {
      '@typescript-eslint/consistent-type-definitions': 'off',
      '@typescript-eslint/naming-convention': [
        'error',
        { selector: 'interface', format: ['PascalCase'], prefix: ['I'] },
        {
          selector: 'memberLike',
          modifiers: ['private'],
          format: ['camelCase'],
          leadingUnderscore: 'require'
        }
      ],
      '@typescript-eslint/no-confusing-void-expression': 'off',
      '@typescript-eslint/no-extraneous-class': 'off',
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/unbound-method': 'off', // Lumino's signals are given the object beside the method
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
      eqeqeq: 'error',
      'max-lines': ['error', { max: 200, skipBlankLines: true, skipComments: true }],
      'max-lines-per-function': ['error', { max: 50, skipBlankLines: true, skipComments: true }],
      'no-console': ['error', { allow: ['warn'] }],
      'no-restricted-globals': ['error', { name: 'setInterval', message: 'Use a Ticker.' }]
    }
  },
  // pool < view < lab < plugins; the widget shows a view without JupyterLab.
  { files: ['src/pool/**'], rules: onlyBelow('^@jupyterlab/', '^\\.\\./') },
  {
    files: ['src/view/**', 'src/widget.ts'],
    rules: onlyBelow('^@jupyterlab/', '^@lumino/widgets', '/lab/', '/plugins/')
  },
  { files: ['src/lab/**'], rules: onlyBelow('^@jupyterlab/application', '/plugins/') },
  { files: ['test/**'], rules: { 'max-lines': 'off', 'max-lines-per-function': 'off' } }
);
